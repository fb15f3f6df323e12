"""The end of a process that has lost its engine. test_processes.py of the vllm engine ends real processes."""

import asyncio

import pytest

from gaudi_runtime.contract.report import Phase, RuntimeFailureReport
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.process import exit as exiting
from gaudi_runtime.process.exit import exit_on_loss
from gaudi_runtime.report.report_board import ReportBoard


async def lost_at_once() -> EngineLost:
    """Report a lost engine."""
    return EngineLost("vLLM hangs. " + "x" * 5000)


async def test_lost_engine_is_reported_before_the_process_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator must see the reason even if it reads the report while the process ends."""
    board, exited = ReportBoard("0" * 64), asyncio.Event()
    seen: list[RuntimeFailureReport | None] = []

    def record_exit(failure: RuntimeFailureReport) -> None:
        assert board.report().phase is Phase.FAILED
        seen.extend((failure, board.report().failure))
        exited.set()

    monkeypatch.setattr(exiting, "exit_with_failure", record_exit)
    async with exit_on_loss(lost_at_once, board):
        await asyncio.wait_for(exited.wait(), 60)
    assert seen[0] == seen[1] == RuntimeFailureReport(reason="EngineLost", message="vLLM hangs. " + "x" * 1012)


async def test_engine_that_ends_after_the_drain_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch ends before the engine is closed, and a closed engine looks like a lost one."""
    board, closed = ReportBoard("0" * 64), asyncio.Event()

    async def until_lost() -> EngineLost:
        await closed.wait()
        return EngineLost("closed")

    monkeypatch.setattr(exiting, "exit_with_failure", lambda failure: pytest.fail(failure.message))
    async with exit_on_loss(until_lost, board):
        await asyncio.sleep(0)
    closed.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert board.report().failure is None
