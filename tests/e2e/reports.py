"""What tests wait for in the reports of pods, which are read a few times a second beside them."""

from demo.reports import PERIOD_SECONDS, ReportRecorder
from gaudi_runtime.contract.report import Phase, WarmupReport


def wait_serving(reports: ReportRecorder) -> list[WarmupReport]:
    """The last reports, once all instances serve: the resource may be Ready a moment before the next look."""
    while {each.phase for each in _last(reports)} != {Phase.SERVING}:
        reports.done.wait(PERIOD_SECONDS)
    return _last(reports)


def wait_answered(reports: ReportRecorder, instances: int) -> None:
    """Return when so many instances have answered requests, those that are gone among them."""
    while sum(each.requests.answered > 0 for each in _last(reports)) < instances:
        reports.done.wait(PERIOD_SECONDS)


def _last(reports: ReportRecorder) -> list[WarmupReport]:
    return list(reports.last.values())
