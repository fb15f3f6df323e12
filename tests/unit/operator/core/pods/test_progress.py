"""Warm-up progress of a pod: percentages and completion computed from its report."""

import pytest

from gaudi_operator.core.pods.pod_progress import captured_progress_percent, warmup_progress_percent
from gaudi_runtime.contract.preparation import Preparation
from gaudi_runtime.contract.report import Phase, PhaseProgressReport, VisionProgressReport
from tests.unit.operator.core.reports import report


def progress(planned: int, warmed: int, captured: int, applies: bool = True) -> PhaseProgressReport:
    preparation = Preparation.CAPTURE if applies else Preparation.NOTHING
    return PhaseProgressReport(planned=planned, warmed=warmed, captured=captured, preparation=preparation)


def test_percentage_is_rounded_down() -> None:
    assert captured_progress_percent(progress(1000, 1000, 999)) == 99


def test_phase_without_buckets_has_no_percentage() -> None:
    assert captured_progress_percent(progress(0, 0, 0)) is None


@pytest.mark.parametrize(
    ("preparation", "expected"),
    [(Preparation.CAPTURE, 50), (Preparation.EXECUTION, 50), (Preparation.NOTHING, 75)],
)
def test_percentage_exists_in_every_mode(preparation: Preparation, expected: int) -> None:
    assert (
        captured_progress_percent(PhaseProgressReport(planned=4, warmed=3, captured=2, preparation=preparation))
        == expected
    )


def test_warmup_counts_compiles_and_captures() -> None:
    half = report(Phase.CAPTURING, prompt=progress(4, 4, 0), decode=progress(4, 4, 0))
    assert warmup_progress_percent(half) == 50


def test_warmup_without_graphs_counts_compiles_only() -> None:
    half = report(Phase.COMPILING, prompt=progress(4, 4, 0, False), decode=progress(4, 0, 0, False))
    assert warmup_progress_percent(half) == 50


def test_warm_up_is_complete_only_at_its_end() -> None:
    last = report(Phase.CAPTURING, prompt=progress(4, 4, 4), decode=progress(4, 4, 4))
    assert warmup_progress_percent(last) == 99


def test_warm_up_with_fewer_captures_is_complete_when_serving() -> None:
    assert warmup_progress_percent(report(prompt=progress(24, 24, 15))) == 100


def test_warmup_without_a_plan_yet_is_at_zero() -> None:
    loading = report(Phase.LOADING, prompt=PhaseProgressReport(), decode=PhaseProgressReport())
    assert warmup_progress_percent(loading) == 0


def test_vision_buckets_are_counted_once_in_the_percentage() -> None:
    seen = VisionProgressReport(planned=4, warmed=2)
    assert (
        warmup_progress_percent(
            report(Phase.COMPILING, prompt=progress(2, 0, 0), decode=progress(1, 0, 0), vision=seen)
        )
        == 20
    )


def test_captured_percentage_is_relative_to_the_plan() -> None:
    assert captured_progress_percent(progress(10, 5, 5)) == 50
