"""Strategy Optimal without traffic. It has fewer graphs than Exponential, and no request has a cold shape.

`pytest -s` prints the duration of warm-up and the padding. Both values are measured on the simulated card.
"""

import os
from pathlib import Path

import pytest

from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.bucketing import Strategy
from tests.plugin.bursts import REQUESTS, rendered_config, serve_bursts
from tests.plugin.engine import Facts, run_in_fork

pytestmark = pytest.mark.skipif(not os.environ.get("PLUGIN_MATRIX"), reason="two more starts: in make plugin only")

STRATEGIES = (Strategy.EXPONENTIAL, Strategy.OPTIMAL)


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Strategy, Facts]:
    found = {}
    for each in STRATEGIES:
        config = rendered_config(checkpoints["llama"], {}, bucketing={"strategy": capitalize_contract_word(each)})
        found[each] = run_in_fork(serve_bursts, config, tmp_path_factory.mktemp(each))
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_requests_run_no_cold_shape(facts: dict[Strategy, Facts], strategy: Strategy) -> None:
    found = facts[strategy]
    assert found["answered"] == REQUESTS
    # The four counts have independent sources: recorded tensors, our counters, Dynamo, and the emulated card.
    assert (found["unwarmed"], found["cold"], found["compiled"], found["recipes"]) == ([], 0, 0, 0)
    assert found["forwards"] == found["counted"] > REQUESTS


def test_optimal_has_fewer_graphs_than_exponential(facts: dict[Strategy, Facts]) -> None:
    for name, found in facts.items():
        padded = ", ".join(f"{phase} {value:.3f}" for phase, value in found["padding"].items())
        print(f"{name}: {count_graphs(found)} graphs, warm after {found['seconds']:.1f} s, padding {padded}")  # noqa: T201
    assert count_graphs(facts[Strategy.OPTIMAL]) < count_graphs(facts[Strategy.EXPONENTIAL])


def count_graphs(found: Facts) -> int:
    """Return the number of planned buckets in both phases."""
    return sum(int(phase["planned"]) for phase in found["ready"].values())
