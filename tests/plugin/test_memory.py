"""A card with too little memory. The start succeeds, the report lists skipped buckets, and every answer is correct."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.plugin.cases import QUICK, case_config
from tests.plugin.engine import Facts, Run, call_in_fork, run_in_fork
from tests.plugin.serving import PROMPTS, largest_logit_gap, planned_shapes, skipped_shapes, start_and_serve

SHAPE = "decode 2x1x16"


@dataclass(frozen=True)
class LowMemory:
    """The cause of low memory: a card that becomes full at one forward of warm-up, or a small share of the card."""

    full_at: tuple[str, int] | None = None
    graph_memory_share: float = 0.1
    device_memory_utilization: float = 0.9


CASES = {
    "compiling": LowMemory(full_at=(SHAPE, 1)),
    "capturing": LowMemory(full_at=(SHAPE, 2)),
    # Leave barely more memory than the KV cache needs. The KV cache takes only the memory that sequences can fill. With
    # more memory, all graphs would fit, and none would be skipped.
    "budget": LowMemory(graph_memory_share=0.002, device_memory_utilization=0.0351),
}


def start_with_low_memory(low_memory: LowMemory, run: Run) -> object:
    run.full_at = low_memory.full_at
    return start_and_serve(run)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def facts(case: str, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config, low_memory = case_config(QUICK[0], checkpoints["llama"], pieces=False), CASES[case]
    update = {
        "warmup": config.warmup.model_copy(update={"graph_memory_share": low_memory.graph_memory_share}),
        "engine": config.engine.model_copy(update={"device_memory_utilization": low_memory.device_memory_utilization}),
    }
    work = partial(start_with_low_memory, low_memory)
    return run_in_fork(work, config.model_copy(update=update), tmp_path_factory.mktemp(case))


def test_report_lists_skipped_buckets_with_reasons(facts: Facts, case: str) -> None:
    left = skipped_shapes(facts)
    if case == "budget":
        assert set(left) == {"prompt 1x384x0", "prompt 1x512x0"}
        assert all("this graph needs about" in reason for reason in left.values())
    else:
        assert (
            f"ran out of memory while this {'bucket was compiled' if case == 'compiling' else 'graph'}" in left[SHAPE]
        )
    (rank,) = facts["before"]
    assert rank["captures"].get("HpuModelAdapter", 0) + len(left) == len(planned_shapes(facts))


def test_skipped_buckets_are_served_and_counted_as_cold(facts: Facts) -> None:
    (before,), (after,) = facts["before"], facts["after"]
    served = {each for each in after["served"] if each in skipped_shapes(facts)}
    assert served
    assert served <= set(facts["cold"])
    assert facts["counted"] == after["served"]
    assert facts["hits"] + sum(facts["cold"].values()) == sum(after["served"].values())
    assert after["captures"] == before["captures"]


def test_answers_equal_those_of_transformers(facts: Facts, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Compare the answers. After a failure, a card that remained in compile-only mode would return zeros."""
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints["llama"], answers), tmp_path) < 0.15
