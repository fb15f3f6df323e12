"""Blocking work in a thread, concurrent with the event loop."""

import asyncio
import concurrent.futures
import threading

import pytest

from gaudi_runtime.process.worker import run_in_worker_thread, start_in_daemon_thread


async def test_result_is_returned_from_a_daemon_thread() -> None:
    assert await run_in_worker_thread(lambda: threading.current_thread().daemon)
    assert await run_in_worker_thread(lambda: None) is None


@pytest.mark.parametrize("error", [OSError("gone"), concurrent.futures.CancelledError(), SystemExit(3)])
async def test_exception_is_raised_unchanged(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await run_in_worker_thread(work)
    assert raised.value is error


async def test_work_of_a_cancelled_waiter_runs_to_its_end() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()
        done.set()

    waiting = asyncio.create_task(run_in_worker_thread(work))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    assert await asyncio.to_thread(done.wait, 60)


def test_started_work_cannot_be_cancelled() -> None:
    go_on = threading.Event()
    outcome = start_in_daemon_thread(lambda: go_on.wait(60), "test")
    assert not outcome.cancel()
    go_on.set()
    assert outcome.result()
