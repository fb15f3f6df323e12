"""The immediate exit of this process and its child processes (docs/internals/vllm.md, Processes).

A process that lost its engine or a rank of its group cannot serve, so the kubelet must restart the container.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from gaudi_runtime.contract.report import RuntimeFailureReport
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.process.children import end_children
from gaudi_runtime.report.report_board import ReportBoard

log = logging.getLogger(__name__)

TERMINATION_LOG = Path("/dev/termination-log")
"""The file whose content the kubelet shows for an ended container, for example in `kubectl describe pod`."""
MOST_CHARACTERS = 1024
"""The kubelet keeps the last 4096 bytes of this file. A longer message could lose the reason at its beginning."""

UntilLost = Callable[[], Awaitable[EngineLost]]


def exit_at_once() -> NoReturn:
    """Exit this process and its child processes immediately, with exit code 0."""
    log.warning("Stopped in the middle of a step that cannot be interrupted.")
    _exit(0)


def exit_with_failure(failure: RuntimeFailureReport) -> NoReturn:
    """Write the failure to the termination message and exit with code 1, so that the kubelet restarts the container."""
    log.error("This process exits (%s): %s", failure.reason, failure.message)
    with contextlib.suppress(OSError):  # the file exists only in a pod
        TERMINATION_LOG.write_text(f"{failure.reason}: {failure.message}"[:MOST_CHARACTERS] + "\n")
    _exit(1)


@contextlib.asynccontextmanager
async def exit_on_loss(until_lost: UntilLost | None, board: ReportBoard) -> AsyncIterator[None]:
    """Exit this process if `until_lost` returns an error while the block runs. None disables the watch."""
    watch_task = asyncio.create_task(exit_when_lost(until_lost, board)) if until_lost else None
    try:
        yield
    finally:
        if watch_task:
            watch_task.cancel()


async def exit_when_lost(until_lost: UntilLost, board: ReportBoard) -> None:
    """Wait until the engine or a rank is lost, report the error, and exit this process."""
    error = await until_lost()
    failure = RuntimeFailureReport(reason=error.reason, message=str(error)[:MOST_CHARACTERS])
    board.fail(failure)
    exit_with_failure(failure)


def _exit(code: int) -> NoReturn:
    end_children()
    logging.shutdown()
    # `sys.exit` would wait for a running compile or shut down the interpreter during the compile.
    os._exit(code)
