"""The rules that derive proofs from the facts of a trial."""

from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.compiles import CompileTimes
from gaudi_runtime.contract.config import EngineConfig, EngineName
from gaudi_runtime.contract.report import (
    BucketPhase,
    ColdShape,
    Phase,
    PhaseProgressReport,
    PlanGapsReport,
    ServedPhaseReport,
    ServedTrafficReport,
    SkippedBucketReport,
    WarmupReport,
)
from gaudi_runtime.hardware.proofs import evaluate_proofs, find_reason_to_end
from gaudi_runtime.hardware.report import (
    HardwareReport,
    ReportCardTrial,
    ReportFinding,
    ReportInstanceStart,
    ReportProofOutcome,
    ReportStartPoll,
    ReportTrialTraffic,
)
from tests.unit.runtime.configs import sim_config

WARM = CompileTimes(stage="warm", recipes=60, seconds=9.5, counts=(0, 0, 0, 0, 0, 0, 7, 1, 0, 0))
COLD = ColdShape(phase=BucketPhase.PROMPT, shape=(1, 512, 0), count=1)


def report(**fields: Any) -> WarmupReport:
    """Return the report of an instance that has captured all graphs and has served."""
    whole = PhaseProgressReport(planned=4, warmed=4, captured=4, cached=4)
    values = {"instance": "a", "sequence": 1, "plan_hash": "0" * 64, "phase": Phase.SERVING}
    served = ServedTrafficReport(
        prompt=ServedPhaseReport(hits=3), decode=ServedPhaseReport(hits=40), compile_times=(WARM,)
    )
    return WarmupReport(**{**values, "prompt": whole, "decode": whole, "served": served} | fields)


def start(name: str = "first", **fields: Any) -> ReportInstanceStart:
    values = {"name": name, "strategy": Strategy.LINEAR, "polls": 50, "seconds": 9.0}
    values |= {"phases": {Phase.COMPILING: 6.0}, "report": report(), "traffic": traffic()}
    return ReportInstanceStart(**values | fields)


def traffic(**fields: Any) -> ReportTrialTraffic:
    return ReportTrialTraffic(**{"requests": 12, "seconds": 3.0, "tokens": 90, "report": report()} | fields)


def facts(**fields: Any) -> HardwareReport:
    engine = EngineConfig(name=EngineName.VLLM, device="hpu", chunked_prefill=False)
    config = sim_config().model_copy(update={"engine": engine})
    values = {
        "begun": "2026-11-23T10:00:00+00:00",
        "runtime": "0.1.0",
        "software": {},
        "pair": "",
        "config": config,
        "doctor": (ReportFinding(topic="torch", state="ok", found="2.11.0"),),
        "card": ReportCardTrial(recipes=1, allocated=1 << 30, lowered=(1 << 30) + 4096),
        "small_start": start("small"),
        "starts": (start(), start("second")),
        "answers_alike": True,
    }
    return HardwareReport(**values | fields)


def outcome(proof: str, **fields: Any) -> ReportProofOutcome:
    return next(each.outcome for each in evaluate_proofs(facts(**fields)) if each.name == proof)


def evidence(proof: str, **fields: Any) -> str:
    return next(each.evidence for each in evaluate_proofs(facts(**fields)) if each.name == proof)


def test_complete_trial_proves_everything() -> None:
    assert {each.outcome for each in evaluate_proofs(facts())} == {ReportProofOutcome.PROVEN}


def test_proofs_of_a_trial_without_starts_are_not_tried() -> None:
    tried = evaluate_proofs(facts(card=None, small_start=None, starts=(), answers_alike=None))
    assert {each.outcome for each in tried if each.name != "machine"} == {ReportProofOutcome.NOT_TRIED}


def test_failed_doctor_finding_disproves_the_machine() -> None:
    found = (ReportFinding(topic="device", state="fail", found="no Gaudi card"),)
    assert outcome("machine", doctor=found) is ReportProofOutcome.DISPROVEN


AGAIN = ServedTrafficReport(
    compile_times=(WARM, CompileTimes(stage="capture", recipes=8, seconds=9.0, counts=(0, 0, 0, 0, 0, 0, 8, 0, 0, 0)))
)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            {"card": ReportCardTrial(recipes=0, allocated=1 << 30, lowered=1 << 30)},
            "The bridge counts no recipe for a new size, so recompilations cannot be seen.",
        ),
        (
            {"card": ReportCardTrial(recipes=1, allocated=1 << 30, lowered=0)},
            "An allocation of 1 GiB lowered the free memory by 0 B, so the memory for graphs cannot be measured.",
        ),
        (
            {"small_start": start("small", report=report(served=AGAIN))},
            "8 captures compiled 8 recipes again, so warm-up takes twice as long.",
        ),
    ],
)
def test_faulty_card_ends_the_trial_early(found: dict[str, Any], sentence: str) -> None:
    assert find_reason_to_end(facts(**found)) == sentence


def test_small_recipe_of_a_capture_does_not_end_the_trial() -> None:
    helper = CompileTimes(stage="capture", recipes=1, seconds=0.1, counts=(0, 0, 0, 0, 1, 0, 0, 0, 0, 0))
    found = start("small", report=report(served=ServedTrafficReport(compile_times=(WARM, helper))))
    assert find_reason_to_end(facts(small_start=found)) is None
    assert evidence("recipe reuse", small_start=found) == "8 captures compiled 1 recipe."


def test_trial_without_a_fault_goes_on() -> None:
    assert find_reason_to_end(facts()) is None


def test_port_open_before_serving_disproves_the_gate() -> None:
    early = ReportStartPoll(seconds=2.0, ready=False, open=True, phase=Phase.CAPTURING)
    values = evidence("gate", starts=(start(early=(early,)),))
    assert values == "The first instance was open 2.0 s after its start, but it was still in phase Capturing."


def test_graph_missing_without_a_reason_disproves_capture() -> None:
    short = report(prompt=PhaseProgressReport(planned=4, warmed=4, captured=3))
    assert outcome("graphs", starts=(start(report=short),)) is ReportProofOutcome.DISPROVEN


def test_graph_skipped_with_a_reason_is_accepted() -> None:
    left_out = SkippedBucketReport(phase=BucketPhase.PROMPT, bucket=(1, 512, 0), reason="no memory")
    short = report(prompt=PhaseProgressReport(planned=4, warmed=4, captured=3), skipped=(left_out,), skipped_total=1)
    assert outcome("graphs", starts=(start(report=short),)) is ReportProofOutcome.PROVEN


def test_cold_shape_of_planned_traffic_disproves_warm_serving() -> None:
    cold = traffic(report=report(cold_shapes=(COLD,)))
    assert outcome("no cold shape, no recompile", starts=(start(traffic=cold),)) is ReportProofOutcome.DISPROVEN


def test_cold_shape_of_a_skipped_bucket_is_accepted() -> None:
    left_out = SkippedBucketReport(phase=COLD.phase, bucket=COLD.shape, reason="no memory")
    cold = traffic(report=report(cold_shapes=(COLD,), skipped=(left_out,), skipped_total=1))
    assert outcome("no cold shape, no recompile", starts=(start(traffic=cold),)) is ReportProofOutcome.PROVEN


def test_recompile_during_serving_disproves_warm_serving() -> None:
    assert (
        outcome(
            "no cold shape, no recompile", starts=(start(traffic=traffic(report=report(recompiles_since_ready=1))),)
        )
        is ReportProofOutcome.DISPROVEN
    )


def compiled(*times: CompileTimes) -> ReportInstanceStart:
    return start(traffic=traffic(report=report(served=ServedTrafficReport(compile_times=times))))


def test_evidence_of_compile_times_is_their_distribution() -> None:
    helpers = CompileTimes(stage="serving", recipes=5, seconds=0.2, counts=(4, 0, 0, 0, 1, 0, 0, 0, 0, 0))
    assert outcome("compile times", starts=(compiled(WARM, helpers),)) is ReportProofOutcome.PROVEN
    assert evidence("compile times", starts=(compiled(WARM, helpers),)) == (
        "warm: 60 recipes, 7 up to 1 s, 1 up to 3 s; serving: 5 recipes, 4 up to 1 ms, 1 up to 100 ms. "
        "The threshold is 100 ms."
    )


@pytest.mark.parametrize(
    ("stage", "counts"),
    [
        ("warm", (0, 0, 0, 0, 1, 0, 0, 0, 0, 0)),
        ("capture", (0, 0, 0, 0, 0, 1, 0, 0, 0, 0)),
        ("serving", (0, 0, 0, 0, 0, 1, 0, 0, 0, 0)),
    ],
)
def test_compile_times_on_the_wrong_side_of_the_threshold_disprove(stage: str, counts: tuple[int, ...]) -> None:
    wrong = CompileTimes(stage=stage, recipes=1, seconds=0.1, counts=counts)
    times = (wrong,) if stage == "warm" else (WARM, wrong)
    assert outcome("compile times", starts=(compiled(*times),)) is ReportProofOutcome.DISPROVEN


def test_bridge_that_counts_no_new_size_disproves_compile_times() -> None:
    assert outcome("compile times", starts=(compiled(),)) is ReportProofOutcome.DISPROVEN


def test_compile_times_without_a_bridge_are_not_tried() -> None:
    assert outcome("compile times", config=sim_config()) is ReportProofOutcome.NOT_TRIED


def test_traffic_without_a_hit_disproves_warm_serving() -> None:
    nothing = traffic(report=report(served=ServedTrafficReport()))
    assert outcome("no cold shape, no recompile", starts=(start(traffic=nothing),)) is ReportProofOutcome.DISPROVEN


def test_second_start_without_recipes_disproves_the_recipe_cache() -> None:
    none = PhaseProgressReport(planned=4, warmed=4, captured=4)
    again = start("second", report=report(prompt=none, decode=none))
    assert outcome("recipes", starts=(start(), again)) is ReportProofOutcome.DISPROVEN


def test_evidence_of_recipes_has_the_seconds_of_both_warm_ups() -> None:
    quick = start("second", phases={Phase.COMPILING: 1.5})
    assert "6.0 s without recipes and 1.5 s with recipes" in evidence("recipes", starts=(start(), quick))


def test_different_answers_of_two_instances_disprove_the_answers() -> None:
    assert outcome("answers", answers_alike=False) is ReportProofOutcome.DISPROVEN


def test_cold_shapes_in_gaps_of_a_plan_are_not_judged() -> None:
    cold = traffic(report=report(cold_shapes=(COLD,), gaps=PlanGapsReport(prompt=1, message="no bucket")))
    assert outcome("no cold shape, no recompile", starts=(start(traffic=cold),)) is ReportProofOutcome.NOT_TRIED


def test_strategy_with_a_recompile_disproves_warm_serving() -> None:
    cold = traffic(report=report(recompiles_since_ready=1))
    starts = (start(), start("second"), start("optimal", strategy=Strategy.OPTIMAL, traffic=cold))
    assert outcome("no cold shape, no recompile", starts=starts) is ReportProofOutcome.DISPROVEN


def test_report_that_ended_early_does_not_prove_everything() -> None:
    assert not facts(ended="Its process ended with 1.").has_passed
