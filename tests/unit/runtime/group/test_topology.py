"""The position of a pod in its group."""

import pytest

from gaudi_runtime.errors import ConfigError
from gaudi_runtime.group.topology import ALONE, Topology, read_topology

SECOND = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "chat-0.chat.models"}


def test_single_node_ignores_the_variables_of_a_group() -> None:
    assert read_topology(1, SECOND) == ALONE


def test_pod_of_a_group_reads_its_rank_from_the_environment() -> None:
    assert read_topology(2, SECOND) == Topology(rank=1, size=2, leader="chat-0.chat.models")


def test_rank_0_is_the_leader() -> None:
    assert [read_topology(2, SECOND | {"LWS_WORKER_INDEX": rank}).is_leader for rank in "01"] == [True, False]


@pytest.mark.parametrize("missing", SECOND)
def test_missing_variable_of_the_group_is_reported(missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        read_topology(2, {name: value for name, value in SECOND.items() if name != missing})


def test_group_size_that_differs_from_the_configured_nodes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"parallelism\.nodes is 4, but this pod has rank 1 in a group of 2 pods"):
        read_topology(4, SECOND)


def test_rank_beyond_the_group_is_refused() -> None:
    with pytest.raises(ConfigError, match="this pod has rank 2 in a group of 2 pods"):
        read_topology(2, SECOND | {"LWS_WORKER_INDEX": "2"})
