"""The duration and host memory of each stage of start-up, as a log line."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from gaudi_runtime.units import size

log = logging.getLogger(__name__)


def host_memory() -> int:
    """Return the resident bytes of this process and its children; shared memory counts once for each."""
    here = psutil.Process()
    total = 0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):  # the process has just ended
            total += process.memory_info().rss
    return total


def stage_cost_line(stage: str, seconds: float, taken: int) -> str:
    """Format the log line about a stage's duration and host memory; `taken` is in bytes, negative if it freed some."""
    return f"{stage} took {seconds:.1f} secs and {size(taken)} of host memory"


@contextmanager
def log_stage_cost(
    stage: str, clock: Callable[[], float] = time.monotonic, resident: Callable[[], int] = host_memory
) -> Iterator[None]:
    """Log the time and host memory that the block took, after it has ended without an error."""
    begun, before = clock(), resident()
    yield
    log.info("%s", stage_cost_line(stage, clock() - begun, resident() - before))
