"""Thresholds of captured graphs: when a phase falls short, and the counts and percentages in the shortfall."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.gate.thresholds import (
    CAPTURED_BELOW_THRESHOLD,
    captured_counts_for_thresholds,
    describe_threshold_shortfalls,
    explain_threshold_shortfall,
    shortfalls,
)
from gaudi_runtime.contract.preparation import Preparation
from gaudi_runtime.contract.report import (
    BucketPhase,
    PhaseProgressReport,
    SkippedBucketReport,
    SkippedVisionBucketReport,
    VisionBucket,
    VisionProgressReport,
)
from tests.unit.operator.core.reports import report


def thresholds(prompt: int = 100, decode: int = 100) -> Readiness:
    return Readiness(min_captured_prompt_percent=prompt, min_captured_decode_percent=decode)


def progress(planned: int, warmed: int, captured: int, applies: bool = True) -> PhaseProgressReport:
    preparation = Preparation.CAPTURE if applies else Preparation.NOTHING
    left_out = planned - captured if applies else 0
    return PhaseProgressReport(
        planned=planned, warmed=warmed, captured=captured, preparation=preparation, left_out_for_memory=left_out
    )


@given(st.integers(1, 10_000), st.integers(0, 100), st.data())
def test_threshold_compares_counts_and_not_rounded_percentages(planned: int, least: int, data: st.DataObject) -> None:
    captured = data.draw(st.integers(0, planned))
    found = shortfalls(report(prompt=progress(planned, planned, captured)), thresholds(prompt=least))
    assert bool(found) == (captured / planned < least / 100)


def test_shortfall_has_counts_percentage_and_threshold() -> None:
    short = report(prompt=progress(24, 24, 15), decode=progress(48, 48, 48))
    assert shortfalls(short, thresholds(prompt=80)) == ("15 of 24 prompt graphs (62 %) are captured (minimum 80 %)",)


def test_shortfall_names_the_first_skipped_bucket_of_its_phase() -> None:
    out = "no memory was left"
    skipped = (
        SkippedBucketReport(phase=BucketPhase.DECODE, bucket=(4, 1, 64), reason="no time was left"),
        SkippedBucketReport(phase=BucketPhase.PROMPT, bucket=(1, 512, 0), reason=out),
        SkippedBucketReport(phase=BucketPhase.PROMPT, bucket=(1, 256, 0), reason="no time was left"),
    )
    short = report(prompt=progress(24, 24, 15), decode=progress(48, 48, 47), skipped=skipped)
    assert describe_threshold_shortfalls(short, thresholds(decode=90)) == (
        f"Prompt bucket (1, 512, 0) was the first bucket that was left out: {out}.",
    )


def test_phase_without_graphs_needs_every_bucket_warmed() -> None:
    cold = report(prompt=progress(4, 3, 0, applies=False), decode=progress(4, 4, 0, applies=False))
    assert shortfalls(cold, thresholds(0, 0)) == ("3 of 4 prompt buckets are warm",)


def test_empty_phase_has_no_shortfall() -> None:
    assert shortfalls(report(prompt=progress(0, 0, 0)), thresholds()) == ()


def test_disabled_warm_up_has_no_shortfall() -> None:
    off = report(prompt=progress(4, 0, 0), warmup_skipped=True)
    assert shortfalls(off, thresholds()) == ()


def test_counts_describe_each_phase() -> None:
    mixed = report(prompt=progress(24, 24, 15), decode=progress(4, 4, 0, applies=False))
    assert captured_counts_for_thresholds(mixed) == (
        "15 of 24 prompt graphs captured (9 left out for memory, they need about 0 B) and 4 of 4 decode buckets warmed"
    )


LEFT = SkippedVisionBucketReport(bucket=VisionBucket("image", 448, 224, 2), reason="the device ran out of memory.")
SEEN = VisionProgressReport(planned=4, warmed=3, skipped=(LEFT,))


def test_vision_shortfall_names_the_skipped_buckets() -> None:
    short = report(vision=SEEN)
    assert shortfalls(short, thresholds()) == ("3 of 4 vision buckets (75 %) are warm (minimum 100 %)",)
    assert describe_threshold_shortfalls(short, thresholds()) == (
        "Vision bucket (image 448x224x2) was the first bucket that was left out: the device ran out of memory.",
    )


def test_vision_below_its_threshold_is_no_incomplete_warm_up() -> None:
    explained = explain_threshold_shortfall(report(vision=SEEN), thresholds())
    assert explained is not None
    assert explained[0] == CAPTURED_BELOW_THRESHOLD


def test_vision_at_its_threshold_has_no_shortfall() -> None:
    assert shortfalls(report(vision=SEEN), Readiness(min_warmed_vision_percent=75)) == ()


def test_counts_name_vision_buckets() -> None:
    assert captured_counts_for_thresholds(report(vision=SEEN)).endswith(" and 3 of 4 vision buckets warmed")
