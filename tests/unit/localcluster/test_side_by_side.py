"""Concurrent lanes of jobs, and the estimate of their remaining time."""

import threading

import pytest

from localcluster.programs.side_by_side import Job, Lane, run_lanes


def test_lanes_run_at_the_same_time() -> None:
    met = threading.Barrier(2, timeout=30)
    run_lanes([Job(met.wait)], [Job(met.wait)])
    assert not met.broken


def test_jobs_of_a_lane_run_in_order() -> None:
    done: list[str] = []
    run_lanes([Job(lambda: done.append("first")), Job(lambda: done.append("second"))])
    assert done == ["first", "second"]


def test_error_is_raised_while_another_lane_still_runs() -> None:
    release, working = threading.Event(), threading.Event()

    def fail() -> None:
        working.wait(30)
        raise RuntimeError("no mirror")

    with pytest.raises(RuntimeError, match="no mirror"):
        run_lanes([Job(working.set), Job(lambda: release.wait(30))], [Job(fail)])
    assert not release.is_set()
    release.set()


def test_stopped_lane_starts_no_further_job() -> None:
    stopped = threading.Event()
    begun: list[str] = []
    Lane([Job(stopped.set), Job(lambda: begun.append("second"))]).run(stopped)
    assert begun == []


def test_initial_remaining_time_is_the_sum_of_all_jobs() -> None:
    assert Lane([Job(list, 10), Job(list, 5)]).left == 15


@pytest.mark.parametrize(("passed", "left"), [(4, 11), (60, 5)])
def test_remaining_time_of_a_running_job_counts_down_to_zero(passed: float, left: float) -> None:
    now = [100.0]
    seen: list[float] = []

    def run() -> None:
        now[0] += passed
        seen.append(lane.left)

    lane = Lane([Job(run, 10), Job(list, 5)], clock=lambda: now[0])
    lane.run(threading.Event())
    assert seen == [left]


def test_finished_lane_has_no_remaining_time() -> None:
    lane = Lane([Job(list, 10)])
    lane.run(threading.Event())
    assert lane.left == 0
