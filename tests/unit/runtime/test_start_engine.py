"""The figures of a start for later comparisons: how long the warm-up would take without cached recipes."""

import threading
from functools import partial
from pathlib import Path

import pytest

from gaudi_runtime.contract.config import RuntimeConfig, WarmupConfig
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.learning.comparison import ComparisonInput
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.warmup.virtual import VirtualClock

TIMES = {"compileSeconds": 6.0, "captureSeconds": 1.0}


def question_after_start(config: RuntimeConfig) -> ComparisonInput | None:
    """Return the question after a start on a fake clock, which only simulated work advances."""
    clock = VirtualClock()
    board = ReportBoard("0" * 64, clock)
    make = partial(SimEngine, sleep=clock.sleep)
    return start_engine(config, board, threading.Event(), make, clock).comparison_input


def board_after_start(config: RuntimeConfig) -> ComparisonInput:
    question = question_after_start(config)
    assert question is not None
    return question


async def test_measured_pace_is_the_sum_of_the_warm_up_steps() -> None:
    question = board_after_start(sim_config({**TIMES, "loadSeconds": 30}))
    assert question.pace.seconds == pytest.approx(10 * 6 + 10)
    assert question.pace.other_seconds == pytest.approx(0, abs=1e-6)
    assert question.pace.decode.fixed == pytest.approx(7)


async def test_cached_recipes_do_not_change_the_measured_pace(tmp_path: Path) -> None:
    config = sim_config(TIMES).model_copy(update={"recipe_cache_dir": str(tmp_path)})
    first, second = board_after_start(config), board_after_start(config)
    assert second.pace.seconds == pytest.approx(first.pace.seconds)
    assert second.pace.prompt.fixed == pytest.approx(first.pace.prompt.fixed)


async def test_skipped_graph_adds_no_seconds() -> None:
    question = board_after_start(sim_config({**TIMES, "oomAtBucket": "prompt:4"}))
    assert question.pace.seconds == pytest.approx(10 * 6 + 9)


async def test_start_without_warm_up_has_no_question() -> None:
    assert question_after_start(sim_config(TIMES, warmup=WarmupConfig(enabled=False))) is None
