"""failOnColdShapes with torch.compile: a prompt that would compile while serving is refused by Dynamo itself."""

from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from tests.plugin.cases import COMPILE, Case, configured
from tests.plugin.engine import Facts, Run, in_own_process
from tests.plugin.serving import PROMPTS

TOKENS = 8
COLD = list(range(500)) + list(range(200))
"""Longer than a step takes: its second part has context, which is not planned here."""


async def meet_a_cold_shape(run: Run) -> Facts:
    await run.start()
    before = run.ranks()
    warm = run.answer(PROMPTS[:2], TOKENS)
    counted = await run.counted()
    facts = {"warm": warm, "counted": counted, "cold": len(run.engine.counters.cold), "error": ""}
    try:
        run.answer([COLD], TOKENS)
    except RuntimeError as error:
        facts["error"] = str(error)
    return facts | {"compiles": run.ranks()[0]["compiles"] - before[0]["compiles"]}


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    case = Case(Strategy.LINEAR, False, True, "llama", COMPILE)
    config = configured(case, checkpoints["llama"], pieces=False)
    strict = config.warmup.model_copy(update={"fail_on_cold_shapes": True})
    folder = tmp_path_factory.mktemp("cold")
    return in_own_process(meet_a_cold_shape, config.model_copy(update={"warmup": strict}), folder)


def test_warm_shapes_are_served_without_a_compile(facts: Facts) -> None:
    assert [len(answer) for answer in facts["warm"]] == [TOKENS, TOKENS]
    assert facts["cold"] == 0


def test_a_cold_shape_ends_the_step_and_compiles_nothing(facts: Facts) -> None:
    assert "fail_on_recompile" in facts["error"]
    assert facts["compiles"] == 0
