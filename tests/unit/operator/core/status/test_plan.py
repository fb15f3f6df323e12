"""status.plan: counted or estimated before a pod has warmed up, measured afterwards."""

import pytest

from gaudi_operator.api.v1alpha1.status import CapturedPercent, GaudiInferenceStatus, PlanBasis, PlanState, Revisions
from gaudi_operator.core.admission.spec_forecast import forecast_plan
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.plan import current_forecast, describe_plan, plan_state
from gaudi_operator.core.status.spec_conditions import judge_plan_accepted
from gaudi_runtime.contract.report import MemorySplit, Phase, PhaseProgress, WarmupReport
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.support.forecasts import from_the_hub, seed
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import IMPOSSIBLE, serving, state_of, warming

MIB, GIB = 1024**2, 1024**3
HPU_GRAPHS = inference(**seed(engine={"executionMode": "HpuGraphs"}))


def warmed(prompt: int = 15, blocks: int = 48, simulated: bool = False) -> WarmupReport:
    """Return the report of a warm pod of the reference deployment, with 24 prompt and 48 decode buckets."""
    return report(
        prompt=PhaseProgress(planned=24, warmed=24, captured=prompt, graph_bytes=13 * GIB + 31 * MIB),
        decode=PhaseProgress(planned=48, warmed=48, captured=48, graph_bytes=GIB),
        memory=MemorySplit(free=10, usable=9, graphs=1, kv_cache=8, kv_blocks=blocks),
        elapsed_seconds=49.4,
        simulated=simulated,
    )


def state(found: State) -> PlanState:
    shown = plan_state(found)
    assert shown is not None
    return shown


def test_buckets_are_counted_before_any_pod_exists() -> None:
    assert state(state_of([])) == PlanState(
        basis=PlanBasis.COUNTED,
        prompt_buckets=8,
        decode_buckets=24,
        kv_blocks=64,
        source="the memory of graphs on a CPU is unknown",
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (seed(engine={"simulation": {"card": None}}), "spec.engine.simulation has no known card and model"),
        (seed(engine={"name": "torch", "simulation": None}), "the model is unknown"),
    ],
    ids=["simulation", "model"],
)
def test_plan_without_an_estimate_has_the_reason(spec: Object, why: str) -> None:
    found = state(state_of([], inference=inference(**spec)))
    assert found.basis is PlanBasis.COUNTED
    assert why in (found.source or "")


def test_counted_plan_has_a_forecast_for_the_configured_blocks() -> None:
    found = current_forecast(state_of([]))
    assert found is not None
    assert found.kv_blocks == 64


def test_different_block_size_of_the_engine_is_reported_and_forecast() -> None:
    said = warmed()
    assert said.memory is not None
    other = said.model_copy(update={"memory": said.memory.model_copy(update={"block_size": 768})})
    found = state_of([serving("a", said=other)])
    assert state(found).block_size == 768
    assert current_forecast(found) == forecast_plan(found.inference, 48, 768) != forecast_plan(found.inference, 48)


def test_requested_block_size_is_not_reported() -> None:
    said = warmed()
    assert said.memory is not None
    asked = inference().spec.engine.block_size
    same = said.model_copy(update={"memory": said.memory.model_copy(update={"block_size": asked})})
    assert state(state_of([serving("a", said=same)])) == state(state_of([serving("a", said=said)]))


def test_first_warmed_up_pod_replaces_the_counted_plan() -> None:
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


def test_warming_pod_has_no_measured_values() -> None:
    found = state_of([view(pod("a", revision="new"), report(Phase.CAPTURING))])
    assert state(found).basis is PlanBasis.COUNTED


def test_values_measured_by_an_older_revision_are_ignored() -> None:
    assert state(state_of([serving("a", "old", said=warmed())])).basis is PlanBasis.COUNTED


def test_values_of_a_simulation_have_basis_simulated() -> None:
    assert state(state_of([serving("a", said=warmed(simulated=True))])).basis is PlanBasis.SIMULATED


MEASURED = state(state_of([serving("a", said=warmed())]))


def written(revision: str) -> GaudiInferenceStatus:
    return GaudiInferenceStatus(plan=MEASURED, revision=Revisions(current=revision))


def test_measured_values_are_kept_until_a_pod_reports() -> None:
    assert state(state_of([warming("a")], previous_status=written("new"))) == MEASURED


def test_measured_values_of_another_revision_are_removed() -> None:
    assert state(state_of([warming("a")], previous_status=written("old"))).basis is PlanBasis.COUNTED


def test_plan_of_a_known_card_and_model_is_estimated() -> None:
    found = state(state_of([], inference=inference(**seed())))
    assert found.basis is PlanBasis.ESTIMATED
    assert found.captured_percent == CapturedPercent(prompt=62, decode=100)
    assert describe_plan(found, HPU_GRAPHS) == (
        "24 prompt and 48 decode graphs (62 % of prompt graphs fit), about 14.1 GiB, about 50 s of warm-up: "
        "an estimate from the description of card gaudi2 and the model meta-llama/Llama-3.1-8B "
        "(as measured with this model)."
    )


def test_torch_compile_plan_has_seconds_and_no_graph_bytes() -> None:
    spec = inference(**from_the_hub(engine={"executionMode": None}))
    found = state(state_of([], inference=spec))
    assert (found.basis, found.graph_bytes) == (PlanBasis.ESTIMATED, None)
    assert found.captured_percent == CapturedPercent()
    assert describe_plan(found, spec).startswith(
        "24 prompt and 48 decode buckets, about 55 s of warm-up: an estimate from "
    )


def test_accepted_torch_compile_plan_reports_when_the_gate_opens() -> None:
    spec = inference(**from_the_hub(engine={"executionMode": None}))
    before, after = state_of([], inference=spec), state_of([serving("a", said=warmed())], inference=spec)
    verdict = judge_plan_accepted(before)
    assert verdict.reason == "Accepted"
    assert "The gate opens when the pod has captured 100 % of the prompt graphs" in verdict.message
    assert "The gate opens" not in judge_plan_accepted(after).message


def test_buckets_without_graphs_are_not_called_graphs() -> None:
    spec = inference(**seed(engine={"executionMode": "Eager"}))
    found = state(state_of([], inference=spec))
    assert describe_plan(found, spec).startswith(
        "24 prompt and 48 decode buckets, about 29 s of warm-up: an estimate from "
    )


def test_first_warmed_up_pod_replaces_an_estimate() -> None:
    found = state(state_of([serving("a", said=warmed())], inference=inference(**seed())))
    assert found.basis is PlanBasis.MEASURED


def test_plan_of_a_refused_spec_ignores_running_pods() -> None:
    refused = state_of([serving("a", said=warmed())], violation=Problem("ThresholdsUnreachable", "Too many."))
    assert state(refused).basis is PlanBasis.COUNTED


def test_impossible_plan_has_no_state() -> None:
    assert plan_state(state_of([], violation=Problem("PlanImpossible", "No bucket."), inference=IMPOSSIBLE)) is None


def test_measured_torch_compile_plan_says_executed() -> None:
    spec = inference(**from_the_hub(engine={"executionMode": None}))
    assert describe_plan(MEASURED, spec).startswith(
        "24 prompt and 48 decode buckets (62 % of prompt buckets are executed), "
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
    assert describe_plan(shown, HPU_GRAPHS) == sentence
