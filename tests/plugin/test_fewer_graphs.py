"""Optimal without traffic has fewer graphs than Exponential on the plugin's own code, and no request is cold.

`pytest -s` prints what warm-up took and how much was padded, both measured on the card that a CPU plays.
"""

import os
from pathlib import Path

import pytest

from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.bucketing import Strategy
from tests.plugin.bursts import REQUESTS, configured, serve_bursts
from tests.plugin.engine import Facts, in_own_process

pytestmark = pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="two more starts: in make plugin only")

STRATEGIES = (Strategy.EXPONENTIAL, Strategy.OPTIMAL)


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Strategy, Facts]:
    found = {}
    for each in STRATEGIES:
        config = configured(checkpoints["llama"], {}, bucketing={"strategy": as_in_spec(each)})
        found[each] = in_own_process(serve_bursts, config, tmp_path_factory.mktemp(each))
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_request_meets_a_cold_shape(facts: dict[Strategy, Facts], strategy: Strategy) -> None:
    found = facts[strategy]
    assert found["answered"] == REQUESTS
    # By the record of the tensors, by our counters, by Dynamo, and by the bridge of the card.
    assert (found["unwarmed"], found["cold"], found["compiled"], found["recipes"]) == ([], 0, 0, 0)
    assert found["forwards"] == found["counted"] > REQUESTS


def test_optimal_has_fewer_graphs(facts: dict[Strategy, Facts]) -> None:
    for name, found in facts.items():
        padded = ", ".join(f"{phase} {value:.3f}" for phase, value in found["padding"].items())
        print(f"{name}: {graphs(found)} graphs, warm after {found['seconds']:.1f} s, padding {padded}")  # noqa: T201
    assert graphs(facts[Strategy.OPTIMAL]) < graphs(facts[Strategy.EXPONENTIAL])


def graphs(found: Facts) -> int:
    """Return the number of planned buckets of both phases."""
    return sum(int(phase["planned"]) for phase in found["ready"].values())
