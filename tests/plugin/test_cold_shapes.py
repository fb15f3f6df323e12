"""Shapes that warm-up did not run, on the plugin's code in both modes. The runtime counts or refuses such shapes.

Each mode is started once. The tests send requests one at a time, so that the counts of each request are known.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.compiles import COMPILE_BOUNDS, RECOMPILATION_SECONDS
from gaudi_runtime.report.served import summarize_served
from tests.plugin.cases import COMPILE, GRAPHS, Case, case_config
from tests.plugin.engine import Facts, Run, run_in_fork

BUCKETS = "\n".join(("(1, 128, 0)", "(1, 512, 0)", "(1, 1, 2)"))
"""Buckets without context, for one sequence, with at most the blocks of 256 tokens in a decode batch."""


def prompt(length: int) -> list[int]:
    return [(7 * at + length) % 500 for at in range(length)]


WARM, SIZE, PATH, OTHER_PATH = prompt(90), prompt(300), prompt(600), prompt(900)
"""A warm prompt, one whose decode batch has more blocks than any bucket, and two whose last piece has context."""


async def send_cold_shapes(run: Run) -> Facts:
    await run.start()
    await set_fail_on_cold_shapes(run, cold=False)
    facts = {
        "warm": await measure_requests(run, [WARM], 2),
        "size": await measure_requests(run, [SIZE], 4),
        "path": await measure_requests(run, [PATH], 1),
        # Repeat the request with the shape WARM. During the request with the other path, Dynamo may have generated code
        # that also serves this shape, with new recipes.
        "again": await measure_requests(run, [WARM], 2),
    }
    await set_fail_on_cold_shapes(run, cold=True)
    facts["strict warm"] = await measure_requests(run, [WARM], 2)
    facts["strict penalty"] = await measure_requests(run, [WARM], 3, presence_penalty=0.5)
    facts["strict size"] = await measure_requests(run, [WARM, WARM], 3)
    facts["strict path"] = await measure_requests(run, [OTHER_PATH], 1)
    facts["report"] = summarize_served(run.engine.counters).model_dump(mode="json")
    return facts


async def set_fail_on_cold_shapes(run: Run, *, cold: bool) -> None:
    """Enable or disable the refusal of cold shapes for the following requests."""

    def set_field(wrapper: Any) -> None:
        wrapper.worker.gaudi_verbs._fail_on_cold_shapes = cold

    run.llm.collective_rpc(set_field)
    await run.engine._ranks.call_async("start_serving", deadline=60)


async def measure_requests(run: Run, prompts: Sequence[Sequence[int]], tokens: int, **sampling: Any) -> Facts:
    """Send requests. Return the changes of our counters and the bridge's counters, and the error if one occurred."""
    counters = run.engine.counters
    await run.count_batches()
    before = (
        counters.recompiles,
        summarize_served(counters).small_compiles,
        sum(counters.cold_batches.values()),
        count_recipes(run),
    )
    error = ""
    try:
        run.answer(prompts, tokens, **sampling)
    except RuntimeError as refused:
        error = str(refused)
        # In a pod, this error ends the engine core. This test continues with the same engine core, so remove the step
        # that is already scheduled.
        run.llm.abort_request([str(number) for number in range(len(prompts))])
        run.llm.engine_core.engine_core.batch_queue.clear()
    await run.count_batches()
    after = (
        counters.recompiles,
        summarize_served(counters).small_compiles,
        sum(counters.cold_batches.values()),
        count_recipes(run),
    )
    return {
        "recompiles": after[0] - before[0],
        "small": after[1] - before[1],
        "cold": after[2] - before[2],
        "recipes": after[3] - before[3],
        "error": error,
    }


def count_recipes(run: Run) -> int:
    """Return the number of the bridge's recipes of graphs."""
    found: int = run.ranks()[0]["recipes"]["graph"]
    return found


@pytest.fixture(scope="module", params=[COMPILE, GRAPHS], ids=str)
def facts(
    request: pytest.FixtureRequest, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Facts:
    config = case_config(
        Case(Strategy.LINEAR, False, False, "llama", request.param), checkpoints["llama"], pieces=False
    )
    by_file = BucketPolicy(strategy=Strategy.FILE, file=BUCKETS)
    strict = config.warmup.model_copy(update={"fail_on_cold_shapes": True})
    config = config.model_copy(update={"bucketing": by_file, "warmup": strict})
    return run_in_fork(send_cold_shapes, config, tmp_path_factory.mktemp("cold"))


def test_warm_shape_causes_no_recompilation(facts: Facts) -> None:
    assert (facts["warm"]["recompiles"], facts["warm"]["cold"], facts["warm"]["recipes"]) == (0, 0, 0)


@pytest.mark.parametrize("case", ["size", "path"])
def test_cold_size_or_code_path_is_one_recompilation(facts: Facts, case: str) -> None:
    assert facts[case]["recipes"] > 0, "the bridge compiled nothing"
    assert facts[case]["recompiles"] == 1


def test_warm_shapes_are_served_with_fail_on_cold_shapes(facts: Facts) -> None:
    assert (facts["strict warm"]["error"], facts["strict warm"]["recompiles"]) == ("", 0)


@pytest.mark.parametrize(
    ("case", "shape"), [("strict size", r"decode shape \(4, 1, "), ("strict path", r"prompt shape \(1, \d+, [1-9]")]
)
def test_cold_size_and_code_path_are_refused_before_they_compile(facts: Facts, case: str, shape: str) -> None:
    assert re.match(f"{shape}.* was not warmed up", facts[case]["error"])
    assert (facts[case]["recipes"], facts[case]["recompiles"]) == (0, 0)


def test_penalties_are_served_with_fail_on_cold_shapes(facts: Facts) -> None:
    assert (facts["strict penalty"]["error"], facts["strict penalty"]["cold"]) == ("", 0)


def test_report_has_the_compile_times_of_each_stage(facts: Facts) -> None:
    counts = {each["stage"]: each["counts"] for each in facts["report"]["compile_times"]}
    threshold = COMPILE_BOUNDS.index(RECOMPILATION_SECONDS) + 1
    assert (sum(counts["warm"][:threshold]), sum(counts["warm"][threshold:])) == (0, len(BUCKETS.splitlines()))
    measured = [found for case, found in facts.items() if case != "report"]
    assert sum(counts["serving"][:threshold]) == sum(each["small"] for each in measured)


def test_report_divides_all_recompilations_by_part_of_the_step(facts: Facts) -> None:
    recompiles = sum(found["recompiles"] for case, found in facts.items() if case != "report")
    assert sum(each["count"] for each in facts["report"]["step_compiles"]) == recompiles
    assert all(each["seconds"] > 0 for each in facts["report"]["step_compiles"])
