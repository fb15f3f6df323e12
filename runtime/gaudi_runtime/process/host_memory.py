"""The duration and the host memory of each start-up stage, written as a log line."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from gaudi_runtime.units import format_bytes

log = logging.getLogger(__name__)


def host_memory() -> int:
    """Return the resident memory of this process and its children, in bytes. Shared memory counts in each process."""
    own_process = psutil.Process()
    total_bytes = 0
    for process in (own_process, *own_process.children(recursive=True)):
        with suppress(psutil.Error):  # the process has just ended
            total_bytes += process.memory_info().rss
    return total_bytes


def host_memory_line(stage: str, seconds: float, host_bytes: int) -> str:
    """Return the log line for a stage. `host_bytes` is the host memory in bytes, negative if the stage freed memory."""
    return f"{stage} took {seconds:.1f} secs and {format_bytes(host_bytes)} of host memory"


@contextmanager
def log_stage_cost(
    stage: str, clock: Callable[[], float] = time.monotonic, measure_memory: Callable[[], int] = host_memory
) -> Iterator[None]:
    """Log the duration and the host memory of the block if the block ends without an error."""
    started, memory_before = clock(), measure_memory()
    yield
    log.info("%s", host_memory_line(stage, clock() - started, measure_memory() - memory_before))
