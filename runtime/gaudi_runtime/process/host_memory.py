"""How long a stage of start-up took, and what it left in the host's memory: a log line for each."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from gaudi_runtime.units import size

log = logging.getLogger(__name__)


def host_memory() -> int:
    """Resident bytes of this process and all below it; what they share counts once for each."""
    here = psutil.Process()
    total = 0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):  # one that has just ended
            total += process.memory_info().rss
    return total


def took_line(stage: str, seconds: float, taken: int) -> str:
    """`taken` in bytes, negative where the stage has freed some."""
    return f"{stage} took {seconds:.1f} secs and {size(taken)} of host memory"


@contextmanager
def log_stage_cost(
    stage: str, clock: Callable[[], float] = time.monotonic, resident: Callable[[], int] = host_memory
) -> Iterator[None]:
    """Log what the block took, once it has ended well."""
    begun, before = clock(), resident()
    yield
    log.info("%s", took_line(stage, clock() - begun, resident() - before))
