"""Progress reports of a fetch: often enough to show progress, but not for every piece."""

from gaudi_runtime.artifacts.sources.download import Progress
from gaudi_runtime.contract.report import FetchProgressReport
from tests.unit.runtime.artifacts.sources.conftest import FILES, Site


def test_progress_is_reported_for_every_thousandth_of_the_bytes() -> None:
    reports: list[FetchProgressReport] = []
    progress = Progress(reports.append, lambda: None)
    progress.begin(1_000_000, 0)
    for _ in range(100):
        progress.add(250)
    assert [each.done_bytes for each in reports] == list(range(0, 25_001, 1000))


def test_no_progress_is_reported_before_the_total_is_known() -> None:
    reports: list[FetchProgressReport] = []
    progress = Progress(reports.append, lambda: None)
    assert progress.done_bytes == 0
    progress.add(1)
    assert reports == []


def test_bytes_of_another_process_are_reported_when_they_change() -> None:
    reports: list[FetchProgressReport] = []
    progress = Progress(reports.append, lambda: None)
    for here in (0, 0, 5, 5):
        progress.report_waiting(here)
    assert reports == [FetchProgressReport(done_bytes=0, waiting=True), FetchProgressReport(done_bytes=5, waiting=True)]


def test_progress_increases_from_zero_to_the_total_bytes(site: Site) -> None:
    site.fetch()
    done, total = [each.done_bytes for each in site.progress], sum(map(len, FILES.values()))
    assert (done[0], done[-1]) == (0, total)
    assert done == sorted(done)
    assert {each.total_bytes for each in site.progress} == {total}
