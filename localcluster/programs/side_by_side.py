"""Jobs in lanes. The jobs of a lane run one after the other, and lanes run concurrently.

Compilers are in one lane and downloads are in another lane. Two concurrent compilers would save no time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from localcluster.progress import board


@dataclass(frozen=True)
class Job:
    """A job of a lane. `seconds` is its duration on two cores, or 0 if its result exists."""

    run: Callable[[], object]
    seconds: float = 0


class Lane:
    """The jobs of a lane in order, and its progress."""

    def __init__(self, jobs: Sequence[Job], clock: Callable[[], float] = time.monotonic) -> None:
        """Create the lane without starting a job. `clock` returns seconds."""
        self._clock = clock
        self._pending_jobs = list(jobs)
        self._current_job: Job | None = None
        self._start = 0.0

    def run(self, stopped: threading.Event) -> None:
        """Run the remaining jobs until `stopped` is set."""
        while self._pending_jobs and not stopped.is_set():
            self._start = self._clock()
            self._current_job = self._pending_jobs.pop(0)
            self._current_job.run()
            self._current_job = None

    @property
    def left(self) -> float:
        """Return the estimated seconds until the end of the lane."""
        pending_seconds = sum(job.seconds for job in list(self._pending_jobs))
        if (current_job := self._current_job) is None:
            return pending_seconds
        return pending_seconds + max(0.0, current_job.seconds - (self._clock() - self._start))


def run_lanes(*lanes: Sequence[Job]) -> None:
    """Run all jobs. The first error is raised immediately.

    After an error, no lane begins another job. The current job of another lane ends by itself, or with this process.
    """
    all_lanes = [Lane(jobs) for jobs in lanes]
    outcomes: SimpleQueue[BaseException | None] = SimpleQueue()
    stopped = threading.Event()

    def run_lane(lane: Lane) -> None:
        try:
            lane.run(stopped)
        except BaseException as error:
            outcomes.put(error)
        else:
            outcomes.put(None)

    try:
        with board.total(lambda: max(lane.left for lane in all_lanes)):
            for lane in all_lanes:
                threading.Thread(target=run_lane, args=(lane,), daemon=True).start()
            for _ in all_lanes:
                if error := outcomes.get():
                    raise error
    finally:
        stopped.set()
