"""The duration of a start of our process, its warm-up, and a start of vLLM's own server."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.benchmarks.vllm_servers import Server


@dataclass(frozen=True)
class Start:
    """The seconds of one start until the model port answers, and how many of these seconds our warm-up takes."""

    name: str
    seconds: float
    warmup: float = 0.0

    @property
    def rest(self) -> float:
        """The part of a start that also exists in vLLM's own server."""
        return self.seconds - self.warmup


def our_start(name: str, server: Server) -> Start:
    """Wait for our runtime."""
    reports = server.until_serving()
    return Start(name, server.until_healthy(), warmup_seconds(reports))


def their_start(name: str, server: Server) -> Start:
    """Wait for vLLM's own server."""
    return Start(name, server.until_healthy())


def warmup_seconds(reports: Sequence[WarmupReport]) -> float:
    """Return the seconds from the first bucket to the last step of warm-up, without loading and opening the port."""
    begun = next((report for report in reports if report.phase is Phase.COMPILING), None)
    if begun is None:
        return 0.0  # warm-up is disabled
    done = [report for report in reports if report.phase is not Phase.SERVING][-1]
    return done.elapsed_seconds - begun.elapsed_seconds


def table(starts: Sequence[Start]) -> Table:
    """Return a table with one row for each start, in seconds."""
    shown = Table(title="Start of the process to Ready, in seconds", title_justify="left")
    shown.add_column("start")
    for heading in ("total", "warm-up", "total without warm-up"):
        shown.add_column(heading, justify="right")
    for each in starts:
        shown.add_row(each.name, *(f"{part:.1f}" for part in (each.seconds, each.warmup, each.rest)))
    return shown
