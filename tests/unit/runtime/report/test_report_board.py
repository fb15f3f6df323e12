"""Sequences, durations and long polls of the report board."""

import asyncio
import threading

import pytest

from gaudi_runtime.contract.report import Phase, PhaseProgressReport, RuntimeFailureReport
from gaudi_runtime.report.report_board import MAX_WAITERS, ReportBoard, TooManyReportWaiters

HASH = "a" * 64
NEVER = 3600.0
"""A timeout in seconds that no test reaches."""


class Clock:
    """A monotonic clock that tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def run_due_tasks() -> None:
    """Run everything that is due, including timers of 0 s."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_every_change_increases_the_sequence_by_one() -> None:
    board = ReportBoard(HASH)
    before = board.report().sequence
    board.update(phase=Phase.LOADING)
    board.update(compiles=1)
    assert board.report().sequence == before + 2


async def test_refreshed_figures_are_in_the_next_report() -> None:
    board = ReportBoard(HASH)
    board.update_silently(compiles=7)
    assert board.report().compiles == 7


async def test_refreshed_figures_do_not_wake_waiters() -> None:
    board = ReportBoard(HASH, coalesce_seconds=0)
    waiting = asyncio.create_task(board.wait_for_update(board.report().sequence, 30))
    await run_due_tasks()
    board.update_silently(compiles=7)
    await run_due_tasks()
    board.update(compiles=8)
    assert (await waiting).compiles == 8


async def test_two_instances_have_different_names() -> None:
    assert ReportBoard(HASH).report().instance != ReportBoard(HASH).report().instance


async def test_durations_begin_at_the_start_and_at_the_last_progress() -> None:
    clock = Clock()
    board = ReportBoard(HASH, clock)
    clock.now += 10
    board.update(phase=Phase.LOADING)
    clock.now += 5
    report = board.report()
    assert (report.elapsed_seconds, report.since_progress_seconds) == (15, 5)


async def test_touch_restarts_the_stall_clock_without_a_new_sequence() -> None:
    clock = Clock()
    board = ReportBoard(HASH, clock)
    sequence = board.report().sequence
    clock.now += 10
    board.restart_stall_clock()
    assert (board.report().since_progress_seconds, board.report().sequence) == (0, sequence)


async def test_estimate_decreases_with_time_and_never_below_zero() -> None:
    clock = Clock()
    board = ReportBoard(HASH, clock)
    board.update(phase=Phase.COMPILING, eta_seconds=30.0)
    clock.now += 20
    assert board.report().eta_seconds == 10
    clock.now += 20
    assert board.report().eta_seconds == 0


async def test_estimate_keeps_decreasing_over_updates_without_an_estimate() -> None:
    clock = Clock()
    board = ReportBoard(HASH, clock)
    board.update(phase=Phase.COMPILING, eta_seconds=30.0)
    clock.now += 20
    board.update(compiles=1)
    clock.now += 5
    assert board.report().eta_seconds == 5
    board.update(eta_seconds=40.0)
    assert board.report().eta_seconds == 40


async def test_durations_are_constant_while_serving() -> None:
    clock = Clock()
    board = ReportBoard(HASH, clock)
    board.update(phase=Phase.COMPILING, eta_seconds=30.0)
    clock.now += 20
    board.update(phase=Phase.SERVING)
    clock.now += 1000
    report = board.report()
    assert (report.elapsed_seconds, report.since_progress_seconds, report.eta_seconds) == (20, 0, None)


async def test_change_of_phase_wakes_the_waiter_immediately() -> None:
    board = ReportBoard(HASH, coalesce_seconds=NEVER)
    waiting = asyncio.create_task(board.wait_for_update(board.report().sequence, 60))
    await run_due_tasks()
    board.update(phase=Phase.SERVING)
    await run_due_tasks()
    assert waiting.done()
    assert waiting.result().phase is Phase.SERVING


async def test_failure_wakes_the_waiter_immediately() -> None:
    board = ReportBoard(HASH, coalesce_seconds=NEVER)
    waiting = asyncio.create_task(board.wait_for_update(board.report().sequence, 60))
    await run_due_tasks()
    board.fail(RuntimeFailureReport(reason="Crashed", message="boom"))
    await run_due_tasks()
    assert waiting.done()
    assert waiting.result().failure == RuntimeFailureReport(reason="Crashed", message="boom")


async def test_many_small_changes_wake_the_waiter_once() -> None:
    board = ReportBoard(HASH, coalesce_seconds=0)
    first = board.report().sequence
    waiting = asyncio.create_task(board.wait_for_update(first, 30))
    await asyncio.sleep(0)
    for warmed in range(1, 101):
        board.update(prompt=PhaseProgressReport(planned=100, warmed=warmed))
    report = await waiting
    assert (report.sequence, report.prompt.warmed) == (first + 100, 100)


async def test_next_small_change_wakes_the_next_waiter() -> None:
    board = ReportBoard(HASH, coalesce_seconds=0)
    for warmed in (1, 2):
        waiting = asyncio.create_task(board.wait_for_update(board.report().sequence, 60))
        await run_due_tasks()
        board.update(prompt=PhaseProgressReport(planned=2, warmed=warmed))
        await run_due_tasks()
        assert waiting.done()
        assert waiting.result().prompt.warmed == warmed


async def test_changes_from_another_thread_wake_the_waiter() -> None:
    board = ReportBoard(HASH)
    waiting = asyncio.create_task(board.wait_for_update(board.report().sequence, 30))
    thread = threading.Thread(target=lambda: board.update(phase=Phase.LOADING))
    thread.start()
    assert (await waiting).phase is Phase.LOADING
    thread.join()


@pytest.mark.parametrize("sequence", [0, 999], ids=["older", "of another instance"])
async def test_sequence_that_is_not_current_is_answered_immediately(sequence: int) -> None:
    waiting = asyncio.create_task(ReportBoard(HASH).wait_for_update(sequence, 60))
    await run_due_tasks()
    assert waiting.done()


async def test_wait_without_changes_ends_after_its_timeout() -> None:
    board = ReportBoard(HASH)
    sequence = board.report().sequence
    assert (await board.wait_for_update(sequence, 0.01)).sequence == sequence


async def test_waiter_beyond_the_limit_is_refused() -> None:
    board = ReportBoard(HASH)
    waiting = [asyncio.create_task(board.wait_for_update(1, 30)) for _ in range(MAX_WAITERS)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyReportWaiters):
        await board.wait_for_update(1, 30)
    board.close()
    await asyncio.gather(*waiting)
    await board.wait_for_update(1, 30)


async def test_ended_waits_free_their_places() -> None:
    board = ReportBoard(HASH)
    await asyncio.gather(*(board.wait_for_update(1, 0) for _ in range(MAX_WAITERS)))
    waiting = [asyncio.create_task(board.wait_for_update(1, 30)) for _ in range(MAX_WAITERS)]
    await run_due_tasks()
    assert not any(task.done() for task in waiting)
    board.close()
    await asyncio.gather(*waiting)


async def test_pinned_fields_survive_updates() -> None:
    board = ReportBoard(HASH)
    board.pin_fields(engine_arguments=("--tensor-parallel-size=2",))
    board.update(engine_arguments=(), compiles=1)
    board.update_silently(engine_arguments=(), compiles=2)
    assert (board.report().engine_arguments, board.report().compiles) == (("--tensor-parallel-size=2",), 2)
