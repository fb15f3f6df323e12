"""Functions that wait for reports of pods. A recorder polls the reports a few times a second during a test."""

from demo.reports import PERIOD_SECONDS, ReportRecorder
from gaudi_runtime.contract.report import Phase, WarmupReport


def wait_serving(reports: ReportRecorder) -> list[WarmupReport]:
    """Wait until all instances serve, and return their last reports.

    The resource may become Ready a moment before the recorder's next poll.
    """
    while {each.phase for each in _last(reports)} != {Phase.SERVING}:
        reports.stopped.wait(PERIOD_SECONDS)
    return _last(reports)


def wait_answered(reports: ReportRecorder, instances: int) -> None:
    """Wait until `instances` instances have answered requests, including instances that have ended."""
    while sum(each.requests.answered > 0 for each in _last(reports)) < instances:
        reports.stopped.wait(PERIOD_SECONDS)


def _last(reports: ReportRecorder) -> list[WarmupReport]:
    return list(reports.last_reports.values())
