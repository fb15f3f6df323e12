"""Suggestions of the operator after requests met cold shapes, which have no warm graph."""

from typing import Any

from gaudi_operator.core.status.cold_shapes import NO_GRAPH, suggest_bucket
from gaudi_runtime.contract.report import BucketPhase, ColdShape, MemorySplit, PhaseProgress, WarmupReport
from gaudi_runtime.contract.report_fields import Shape
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import serving, state_of

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
MIB = 2**20
MEMORY = MemorySplit(free=0, usable=0, graphs=0, kv_cache=0, kv_blocks=64)
TWO_PROMPTS = inference(
    engine={"maxNumPrefillSeqs": 4},
    bucketing={"strategy": "File", "file": "(1, 128, 0)\n(1, 256, 0)\n(2, 1, 64)\n"},
)


def cold(phase: BucketPhase, shape: Shape, count: int = 1, needed: Shape | None = None) -> ColdShape:
    return ColdShape(phase=phase, shape=shape, count=count, needed=needed)


def report_of(*shapes: ColdShape, **fields: Any) -> WarmupReport:
    prompt = PhaseProgress(planned=2, warmed=2, captured=2, graph_bytes=384 * MIB)
    return report(**{"cold_shapes": shapes, "memory": MEMORY, "prompt": prompt, **fields})


def suggestion_for(*reports: WarmupReport) -> str | None:
    pods = [serving(name, said=said) for name, said in zip("abc", reports, strict=False)]
    return suggest_bucket(state_of(pods, inference=TWO_PROMPTS))


def test_no_bucket_is_suggested_without_cold_shapes() -> None:
    assert suggestion_for(report_of()) is None


def test_suggested_bucket_has_memory_and_warm_up_cost() -> None:
    """Graphs take 1 MiB per token at the rate of pod a, so a prompt graph of 2 * 208 tokens takes 416 MiB.

    The suggested length is 208 tokens, because 208 is a multiple of the block size 16.
    """
    assert suggestion_for(report_of(cold(PROMPT, (2, 320, 0), 7, needed=(2, 200, 0)))) == (
        "One more prompt bucket (2, 208, 0) would hold 100 % of the batches without a warm graph, and would take "
        "about 416 MiB of memory (at the rate of pod a) and about 1 s of warm-up (at the rate of a Gaudi 2). "
        "`kubectl gaudi plan learn` plans for all observed batches."
    )


def test_suggested_bucket_fits_the_most_batches() -> None:
    said = suggestion_for(
        report_of(cold(PROMPT, (2, 128, 0), 7), cold(PROMPT, (3, 128, 0), 2), cold(DECODE, (3, 1, 80), 8))
    )
    assert said is not None
    assert said.startswith("One more prompt bucket (3, 128, 0) ")
    assert " 52 % of the batches" in said


def test_smaller_bucket_is_suggested_if_both_fit_equally_many_batches() -> None:
    said = suggestion_for(report_of(cold(PROMPT, (2, 128, 0), 7), cold(DECODE, (3, 1, 64), 7)))
    assert said is not None
    assert said.startswith("One more decode bucket (3, 1, 64) ")
    assert " 50 % of the batches" in said


def test_cold_batches_of_all_pods_are_added() -> None:
    said = suggestion_for(report_of(cold(PROMPT, (2, 128, 0), 7)), report_of(cold(PROMPT, (3, 128, 0), 2)))
    assert said is not None
    assert "bucket (3, 128, 0) " in said
    assert " 100 % of the batches" in said


def test_memory_cost_is_the_mean_if_some_graphs_are_missing() -> None:
    some = PhaseProgress(planned=2, warmed=2, captured=1, graph_bytes=100 * MIB)
    said = suggestion_for(report_of(cold(PROMPT, (2, 128, 0)), prompt=some))
    assert said is not None
    assert "about 100 MiB " in said


def test_suggestion_without_graphs_has_no_memory_cost() -> None:
    eager = PhaseProgress(planned=2, warmed=2, preparation="Nothing")
    said = suggestion_for(report_of(cold(PROMPT, (2, 128, 0)), prompt=eager))
    assert said is not None
    assert "and would take about 1 s " in said


def test_missing_graphs_are_reported_if_every_bucket_is_planned() -> None:
    assert suggestion_for(report_of(cold(PROMPT, (1, 256, 0), 7, needed=(1, 200, 0)))) == NO_GRAPH


def test_cold_shapes_of_other_revisions_are_ignored() -> None:
    old = serving("a", revision="old", said=report_of(cold(PROMPT, (2, 128, 0))))
    assert suggest_bucket(state_of([old], inference=TWO_PROMPTS)) is None
