"""The topology of a group: this pod's rank, read from the variables of the LeaderWorkerSet controller.

See docs/how-to/several-nodes.md, A group.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gaudi_runtime.errors import ConfigError

LEADER_VARIABLE = "LWS_LEADER_ADDRESS"
SIZE_VARIABLE = "LWS_GROUP_SIZE"
INDEX_VARIABLE = "LWS_WORKER_INDEX"


@dataclass(frozen=True)
class Topology:
    """The rank of this pod in its group of `size` pods. Rank 0 is the leader and has the host name `leader`."""

    rank: int
    size: int
    leader: str

    @property
    def is_leader(self) -> bool:
        """Return whether this pod is the leader, which serves and sends commands to the other ranks."""
        return self.rank == 0


ALONE = Topology(rank=0, size=1, leader="")
"""The topology of a replica that is one pod."""


def read_topology(nodes: int, environment: Mapping[str, str]) -> Topology:
    """Return the topology of this pod in a replica of `nodes` pods. Raises ConfigError for wrong variables."""
    if nodes == 1:
        return ALONE
    try:
        size, rank = int(environment[SIZE_VARIABLE]), int(environment[INDEX_VARIABLE])
        leader = environment[LEADER_VARIABLE]
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"parallelism.nodes is {nodes}, but a variable of the group is missing or invalid: {error}. Run this pod "
            f"in a LeaderWorkerSet, whose controller sets {SIZE_VARIABLE}, {INDEX_VARIABLE} and {LEADER_VARIABLE}."
        ) from error
    if size != nodes or not 0 <= rank < size:
        raise ConfigError(
            f"parallelism.nodes is {nodes}, but this pod has rank {rank} in a group of {size} pods. Set the size of "
            f"the LeaderWorkerSet to {nodes}."
        )
    return Topology(rank, size, leader)
