"""A process without its engine, or without a rank of its group, answers nobody: the kubelet starts another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gaudi_runtime.contract.report import RuntimeFailure
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.leaving import leave_broken
from gaudi_runtime.report_board import ReportBoard

MOST_CHARACTERS = 2048

UntilLost = Callable[[], Awaitable[EngineLost]]


@asynccontextmanager
async def ended_when_lost(until_lost: UntilLost | None, board: ReportBoard) -> AsyncIterator[None]:
    """While the block runs, end this process with the reason as soon as `until_lost` returns one; None never does."""
    watching = asyncio.create_task(leave_when_lost(until_lost, board)) if until_lost else None
    try:
        yield
    finally:
        if watching:
            watching.cancel()


async def leave_when_lost(until_lost: UntilLost, board: ReportBoard) -> None:
    """Wait for the reason and end this process with it."""
    error = await until_lost()
    board.fail(RuntimeFailure(reason=error.reason, message=str(error)[:MOST_CHARACTERS]))
    leave_broken(error)
