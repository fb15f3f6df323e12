"""A revision with a learned plan is kept only if live traffic pads and compiles no more than forecast."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, Revisions
from gaudi_operator.core.names import FAILURE_ANNOTATION
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.problems.learned_plan import why_learned_plan_missed_forecast
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.contract.report import FEWEST_PROMPTS, Phase, ServedPhaseReport, ServedTrafficReport, WarmupReport
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.pod_objects import view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import problem_of, state_of
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status

ROOM = RoomCriterion(to_come=False)
TRAFFIC = "prompt 1 100 0 5\nprompt 1 200 0 2\ndecode 2 1 20 9"
LEARNED = {"strategy": "Optimal", "optimal": {"traffic": TRAFFIC}}
RATIOS = st.floats(1, 50)


def served_phase(
    padding: float | None, forecast: float | None, batches: int = FEWEST_PROMPTS, misses: int = 0
) -> ServedPhaseReport:
    return ServedPhaseReport(hits=batches - misses, misses=misses, padding=padding, forecast_padding=forecast)


def report_of(prompt: ServedPhaseReport, decode: ServedPhaseReport | None = None, **fields: Any) -> WarmupReport:
    return report(served=ServedTrafficReport(prompt=prompt, decode=decode or served_phase(1.1, 1.1)), **fields)


def rollout_state(plan: dict[str, Any] | None = LEARNED, stable: dict[str, Any] | None = None, **canary: Any) -> State:
    """Return a state with two revisions: `plan` is for the revision of pod `a`, `stable` for the stable revision."""
    mine = view().revision
    kept = ({mine: plan, "good": stable}).items()
    stored = tuple(Revision(name, 1, {"bucketing": found} if found else {}, {}, "") for name, found in kept)
    before = GaudiInferenceStatus(revision=Revisions(stable="good"))
    return replace(state_of(inference=inference(rollout={"canary": canary}), stored=stored), previous_status=before)


def problem(said: WarmupReport, state: State) -> Problem | None:
    return problem_of(view(report=said), state, ROOM)


def test_padding_above_the_forecast_is_reported_with_both_numbers() -> None:
    assert problem(report_of(served_phase(1.431, 1.12, batches=312)), rollout_state()) == Problem(
        "ForecastMissed",
        "In pod a, 312 prompt batches computed 1.431 times the real tokens, but the forecast for batches of these "
        "sizes was 1.120. spec.rollout.canary.maxPaddingPercent allows 15 % more than the forecast. The traffic "
        "differs from spec.bucketing.optimal.traffic. Run `kubectl gaudi plan learn tiny --apply` under the usual "
        "load, or raise maxPaddingPercent.",
    )


def test_cold_batches_are_reported_with_both_shares() -> None:
    cold = served_phase(1.1, 1.1, batches=5000, misses=250)
    assert problem(report_of(served_phase(1.1, 1.1), cold), rollout_state()) == Problem(
        "ForecastMissed",
        "In pod a, 5.0% of 5000 decode batches had no warm graph. The forecast was 0.0%, and 1% is tolerated. "
        "While the pod runs, `kubectl get gi tiny -o yaml` shows the shapes of these batches in "
        "status.recompiles.coldShapes. To keep the pod, set spec.rollout.onFailure to Pause.",
    )


@pytest.mark.parametrize("said", [served_phase(2.0, 1.1), served_phase(1.1, 1.1, misses=9)])
def test_buckets_without_a_graph_are_named_as_the_cause(said: ServedPhaseReport) -> None:
    found = problem(report_of(said, skipped_total=3), rollout_state())
    assert found is not None
    assert "3 planned buckets have no graph. " in found.message


@pytest.mark.parametrize(
    ("prompt", "decode", "percent", "missed"),
    [
        (served_phase(1.21, 1.1), served_phase(1.1, 1.1), 10, False),
        (served_phase(1.22, 1.1), served_phase(1.1, 1.1), 10, True),
        (served_phase(1.1, 1.1), served_phase(1.22, 1.1), 10, True),
        (served_phase(1.22, 1.1), served_phase(1.1, 1.1), 20, False),
        (served_phase(9.0, 1.1, batches=FEWEST_PROMPTS - 1), served_phase(9.0, 1.1, batches=90_000), 10, False),
        (served_phase(9.0, None), served_phase(9.0, None), 10, False),
        (served_phase(1.1, 1.1, batches=200, misses=2), served_phase(1.1, 1.1), 10, False),
        (served_phase(1.1, 1.1, batches=200, misses=3), served_phase(1.1, 1.1), 10, True),
        (served_phase(None, None, misses=200), served_phase(None, None), 10, False),
    ],
)
def test_padding_and_cold_batches_fail_only_above_their_limits(
    prompt: ServedPhaseReport, decode: ServedPhaseReport, percent: int, missed: bool
) -> None:
    assert (why_learned_plan_missed_forecast(report_of(prompt, decode), percent, "tiny") is not None) is missed


def test_cold_batches_are_no_problem_if_warm_up_was_skipped() -> None:
    assert problem(report_of(served_phase(1.1, 1.1, misses=200), warmup_skipped=True), rollout_state()) is None


@given(seen=RATIOS, forecast=RATIOS, percent=st.integers(0, 1000), prompts=st.integers(0, 10_000))
def test_higher_tolerance_fails_less_and_forecast_padding_never(
    seen: float, forecast: float, percent: int, prompts: int
) -> None:
    def fails(padding: float, tolerated: int) -> bool:
        said = report_of(served_phase(padding, forecast, batches=prompts), served_phase(padding, forecast))
        return why_learned_plan_missed_forecast(said, tolerated, "tiny") is not None

    assert not fails(forecast, percent)
    assert fails(seen, percent) <= fails(seen, 0)
    assert fails(seen, percent) <= fails(seen + 1, percent)
    assert fails(seen, 0) == (seen > forecast and prompts >= FEWEST_PROMPTS)


@pytest.mark.parametrize(
    ("state", "judged"),
    [
        (rollout_state(), True),
        (rollout_state(observeSeconds=60), True),
        (rollout_state(observeSeconds=0), False),
        (rollout_state(stable={**LEARNED, "optimal": {"traffic": "prompt 1 1 0 1"}}), True),
        (rollout_state(stable=LEARNED, observeSeconds=60), False),
        (rollout_state(plan={"strategy": "Optimal"}, observeSeconds=60), False),
        (rollout_state(plan=None, observeSeconds=60), False),
        (replace(rollout_state(), previous_status=GaudiInferenceStatus()), False),
    ],
)
def test_only_a_new_observed_learned_plan_is_checked(state: State, judged: bool) -> None:
    assert (problem(report_of(served_phase(9.0, 1.1)), state) is not None) is judged


def learning(**rollout: Any) -> tuple[Cluster, str, str]:
    """Return a cluster whose canary has just started with a learned plan, the good revision, and the canary's name."""
    cluster = served(rollout=rollout)
    (good,) = revisions(cluster)
    cluster.change(bucketing=LEARNED)
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    (name,) = [name for name in pod_names(cluster) if not name.startswith(f"tiny-{good}")]
    return cluster, good, name


def test_plan_for_other_traffic_is_rolled_back() -> None:
    cluster, good, canary = learning()
    cluster.warm(canary)
    cluster.operate()
    cluster.kubelet()
    cluster.report(
        canary,
        phase=Phase.SERVING,
        served=ServedTrafficReport(prompt=served_phase(1.5, 1.1), decode=served_phase(1.1, 1.1)),
    )
    for _ in range(20):
        cluster.operate()
        cluster.controllers()
        cluster.kubelet()
        assert status(cluster)["readyReplicas"] >= 2
    cluster.settle()
    assert revisions(cluster) == {good}
    assert condition(cluster, "Stalled") == ("True", "RolledBack")
    bad = canary.removeprefix("tiny-").rsplit("-", 1)[0]
    kept = cluster.objects["ControllerRevision", f"tiny-{bad}"]["metadata"]["annotations"][FAILURE_ANNOTATION]
    assert json.loads(kept)["reason"] == "ForecastMissed"
    (said,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == "Stalled"]
    assert ("computed 1.500 times the real tokens, but the forecast for batches of these sizes was 1.100.") in said


def test_learned_plan_is_observed_by_default() -> None:
    cluster, _, canary = learning()
    cluster.warm(canary)
    cluster.operate()
    cluster.kubelet()
    assert cluster.operate().requeue_after == pytest.approx(600, abs=5)
    (said,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == "Ready"]
    assert "has been open for 600 s" in said
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_other_change_with_the_same_learned_plan_is_not_observed() -> None:
    cluster, _, _ = learning()
    cluster.settle()
    cluster.change(model={"maxModelLen": 512})
    cluster.operate()
    (said,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == "Ready"]
    assert "canary" in said
    assert "held" not in said
