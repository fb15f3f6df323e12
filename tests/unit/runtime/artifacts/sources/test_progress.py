"""What a fetch tells of its bytes: often enough to see it move, and not for every piece."""

from gaudi_runtime.artifacts.sources.download import Progress
from gaudi_runtime.contract.report import FetchProgress


def test_bytes_are_told_whenever_a_thousandth_has_come() -> None:
    told: list[FetchProgress] = []
    progress = Progress(told.append, lambda: None)
    progress.begin(1_000_000, 0)
    for _ in range(100):
        progress.add(250)
    assert [each.done_bytes for each in told] == list(range(0, 25_001, 1000))


def test_nothing_is_told_before_it_is_known_what_is_wanted() -> None:
    told: list[FetchProgress] = []
    progress = Progress(told.append, lambda: None)
    assert progress.done == 0
    progress.add(1)
    assert told == []


def test_bytes_of_another_process_are_told_when_they_move() -> None:
    told: list[FetchProgress] = []
    progress = Progress(told.append, lambda: None)
    for here in (0, 0, 5, 5):
        progress.others(here)
    assert told == [FetchProgress(done_bytes=0, waiting=True), FetchProgress(done_bytes=5, waiting=True)]
