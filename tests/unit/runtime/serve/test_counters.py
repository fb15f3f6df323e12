"""Cold shapes met while serving, from the engine into the report and the log."""

import asyncio
import logging

import pytest

from gaudi_runtime.contract.config import WarmupConfig
from gaudi_runtime.counters import publish_counters
from gaudi_runtime.report_board import ReportBoard
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import served


async def test_cold_shapes_are_reported_most_frequent_first_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = ReportBoard("0" * 64)
    async with served(sim_config(warmup=WarmupConfig(enabled=False))) as api:
        counting = asyncio.create_task(publish_counters(api.engine, board))
        for length in (100, 200, 150):
            await api.openai.completions.create(model="echo", prompt="x" * length, max_tokens=1)
        report = await board.wait_beyond(board.report().sequence, 30)
        counting.cancel()
    assert report.recompiles_since_ready == 3
    assert {(cold.phase, cold.shape, cold.count) for cold in report.cold_shapes} == {
        ("prompt", (1, 128, 0), 1),
        ("prompt", (1, 256, 0), 1),
        ("decode", (2, 1, 8), 1),
    }
    logged = [message for message in caplog.messages if "was not warmed-up!" in message]
    assert "Configuration: (prompt, 1, 128, 0) was not warmed-up!" in logged
    assert len(logged) == 3


async def test_warm_shapes_are_hits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with served(sim_config()) as api:
        await api.openai.completions.create(model="echo", prompt="x" * 100, max_tokens=10)
        assert (api.engine.counters.hits, api.engine.counters.cold) == (11, {})
