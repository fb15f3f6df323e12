"""status.plan: the figures that a pod of the current revision has reported."""

import pytest

from gaudi_operator.api.v1alpha1.status import CapturedPercent, GaudiInferenceStatus, PlanBasis, PlanState, Revisions
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.warmup_figures import describe_warmup_plan, warmup_plan_state
from gaudi_runtime.contract.report import MemorySplitReport, Phase, PhaseProgressReport, PlanGapsReport, WarmupReport
from gaudi_runtime.errors import Problem
from tests.support.forecasts import from_the_hub, seed
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import serving, state_of, warming

MIB, GIB = 1024**2, 1024**3
HPU_GRAPHS = inference(**seed(engine={"executionMode": "HpuGraphs"}))


def warmed(prompt: int = 15, blocks: int = 48, simulated: bool = False) -> WarmupReport:
    """Return the report of a warm pod of the reference deployment, with 24 prompt and 48 decode buckets."""
    return report(
        prompt=PhaseProgressReport(planned=24, warmed=24, captured=prompt, graph_bytes=13 * GIB + 31 * MIB),
        decode=PhaseProgressReport(planned=48, warmed=48, captured=48, graph_bytes=GIB),
        memory=MemorySplitReport(free=10, usable=9, graphs=1, kv_cache=8, kv_blocks=blocks),
        gaps=PlanGapsReport(),
        elapsed_seconds=49.4,
        simulated=simulated,
    )


def state(found: State) -> PlanState:
    shown = warmup_plan_state(found)
    assert shown is not None
    return shown


def test_plan_is_absent_before_the_first_report() -> None:
    assert warmup_plan_state(state_of([])) is None


def test_message_without_a_plan_names_the_forecast() -> None:
    assert describe_warmup_plan(None, HPU_GRAPHS) == (
        "The first pod reports the figures of the plan. To estimate them before, run `gaudi-plan forecast "
        "--from-cluster tiny`."
    )


def test_warming_pod_reports_the_buckets_without_costs() -> None:
    said = warmed().model_copy(update={"phase": Phase.CAPTURING, "gaps": PlanGapsReport(prompt=1)})
    found = state(state_of([view(pod("a", revision="new"), said)]))
    assert found == PlanState(
        basis=PlanBasis.MEASURED, prompt_buckets=24, decode_buckets=48, kv_blocks=48, prompt_gaps=1, source="pod a"
    )
    assert describe_warmup_plan(found, HPU_GRAPHS) == (
        "24 prompt and 48 decode graphs are planned for 48 KV blocks, reported by pod a."
    )


def test_warm_pod_is_preferred_over_a_warming_one() -> None:
    warming_up = warmed(0).model_copy(update={"phase": Phase.CAPTURING})
    found = state_of([view(pod("a", revision="new"), warming_up), serving("b", said=warmed())])
    assert state(found).source == "pod b"


def test_pod_without_a_plan_has_no_figures() -> None:
    assert warmup_plan_state(state_of([view(pod("a", revision="new"), report(Phase.LOADING, gaps=None))])) is None


def test_different_block_size_of_the_engine_is_reported() -> None:
    said = warmed()
    assert said.memory is not None
    other = said.model_copy(update={"memory": said.memory.model_copy(update={"block_size": 768})})
    assert state(state_of([serving("a", said=other)])).block_size == 768


def test_requested_block_size_is_not_reported() -> None:
    said = warmed()
    assert said.memory is not None
    asked = inference().spec.engine.block_size
    same = said.model_copy(update={"memory": said.memory.model_copy(update={"block_size": asked})})
    assert state(state_of([serving("a", said=same)])) == state(state_of([serving("a", said=said)]))


def test_plan_of_a_warm_pod_has_its_costs() -> None:
    assert state(state_of([serving("a", said=warmed())])) == PlanState(
        basis=PlanBasis.MEASURED,
        prompt_buckets=24,
        decode_buckets=48,
        kv_blocks=48,
        graph_bytes=14 * GIB + 31 * MIB,
        warmup_seconds=49,
        captured_percent=CapturedPercent(prompt=62, decode=100),
        source="pod a",
    )


def test_measured_values_come_from_the_pod_with_the_fewest_graphs() -> None:
    found = state_of([serving("a", said=warmed(20)), serving("b", said=warmed(15)), serving("c", said=warmed(15))])
    assert state(found).source == "pod b"


def test_values_measured_by_an_older_revision_are_ignored() -> None:
    assert warmup_plan_state(state_of([serving("a", "old", said=warmed())])) is None


def test_values_of_a_simulation_have_basis_simulated() -> None:
    assert state(state_of([serving("a", said=warmed(simulated=True))])).basis is PlanBasis.SIMULATED


MEASURED = state(state_of([serving("a", said=warmed())]))


def written(revision: str) -> GaudiInferenceStatus:
    return GaudiInferenceStatus(plan=MEASURED, revision=Revisions(current=revision))


def test_measured_values_are_kept_until_a_pod_reports() -> None:
    assert state(state_of([warming("a")], previous_status=written("new"))) == MEASURED


def test_measured_values_of_another_revision_are_removed() -> None:
    assert warmup_plan_state(state_of([warming("a")], previous_status=written("old"))) is None


def test_plan_of_a_refused_spec_ignores_running_pods() -> None:
    refused = state_of([serving("a", said=warmed())], violation=Problem("ThresholdsUnreachable", "Too many."))
    assert warmup_plan_state(refused) is None


@pytest.mark.parametrize(("mode", "outcome"), [(None, "executed"), ("Lazy", "warmed")])
def test_measured_plan_without_graphs_names_the_last_step(mode: str | None, outcome: str) -> None:
    spec = inference(**from_the_hub(engine={"executionMode": mode}))
    assert describe_warmup_plan(MEASURED, spec).startswith(
        f"24 prompt and 48 decode buckets (62 % of prompt buckets are {outcome}), "
    )


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (
            MEASURED,
            "24 prompt and 48 decode graphs (62 % of prompt graphs are captured), 14.03 GiB, 49 s from start to "
            "serving: measured by pod a.",
        ),
        (
            MEASURED.model_copy(update={"captured_percent": CapturedPercent(prompt=100, decode=100)}),
            "24 prompt and 48 decode graphs, 14.03 GiB, 49 s from start to serving: measured by pod a.",
        ),
        (
            MEASURED.model_copy(update={"basis": PlanBasis.SIMULATED}),
            "24 prompt and 48 decode graphs (62 % of prompt graphs are captured), 14.03 GiB, 49 s from start to "
            "serving: simulated by pod a.",
        ),
    ],
)
def test_message_names_the_source_of_the_values(shown: PlanState, sentence: str) -> None:
    assert describe_warmup_plan(shown, HPU_GRAPHS) == sentence
