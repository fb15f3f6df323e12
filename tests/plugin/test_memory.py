"""A card with too little memory: the start goes on, what is left out is said, and every answer is right."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.plugin.cases import QUICK, configured
from tests.plugin.engine import Facts, Run, forked, in_own_process
from tests.plugin.serving import PROMPTS, planned, skipped, start_and_serve, worst_gap

SHAPE = "decode 2x1x16"


@dataclass(frozen=True)
class Short:
    """How memory is short: at which forward of warm-up the card is full, or how little of the card is used."""

    full_at: tuple[str, int] | None = None
    graph_memory_share: float = 0.1
    device_memory_utilization: float = 0.9


SHORT = {
    "compiling": Short(full_at=(SHAPE, 1)),
    "capturing": Short(full_at=(SHAPE, 2)),
    # The KV cache takes what sequences can fill, so that graphs are left out only if hardly more is used.
    "budget": Short(graph_memory_share=0.002, device_memory_utilization=0.03554),
}


def start_short(short: Short, run: Run) -> object:
    run.full_at = short.full_at
    return start_and_serve(run)


@pytest.fixture(scope="module", params=SHORT)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def facts(case: str, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config, short = configured(QUICK[0], checkpoints["llama"], pieces=False), SHORT[case]
    update = {
        "warmup": config.warmup.model_copy(update={"graph_memory_share": short.graph_memory_share}),
        "engine": config.engine.model_copy(update={"device_memory_utilization": short.device_memory_utilization}),
    }
    work = partial(start_short, short)
    return in_own_process(work, config.model_copy(update=update), tmp_path_factory.mktemp(case))


def test_what_is_left_out_is_said(facts: Facts, case: str) -> None:
    left = skipped(facts)
    if case == "budget":
        assert set(left) == {"prompt 1x384x0", "prompt 1x512x0"}
        assert all("it needs about" in reason for reason in left.values())
    else:
        assert f"ran out of memory while {'it was compiled' if case == 'compiling' else 'its graph'}" in left[SHAPE]
    (rank,) = facts["before"]
    assert rank["captures"].get("HpuModelAdapter", 0) + len(left) == len(planned(facts))


def test_what_is_left_out_is_served_and_never_a_hit(facts: Facts) -> None:
    (before,), (after,) = facts["before"], facts["after"]
    served = {each for each in after["served"] if each in skipped(facts)}
    assert served
    assert served <= set(facts["cold"])
    assert facts["counted"] == after["served"]
    assert facts["hits"] + sum(facts["cold"].values()) == sum(after["served"].values())
    assert after["captures"] == before["captures"]


def test_answers_are_those_of_transformers(facts: Facts, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Also after a failure in compile-only mode: a card that had stayed in it would compute zeros."""
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert forked(partial(worst_gap, checkpoints["llama"], answers), tmp_path) < 0.15
