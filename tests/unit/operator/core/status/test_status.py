"""The figures in the status, and the delay before a changed status is written."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import (
    CapturedPercent,
    Condition,
    GaudiInferenceStatus,
    PodState,
    RevisionPhase,
    Revisions,
    RevisionStatus,
    WarmupProgress,
)
from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.thresholds import explain_threshold_shortfall
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.state import State
from gaudi_operator.core.status.status_builder import (
    FIRST_REPORTS_SECONDS,
    MANY_PODS_SECONDS,
    STATUS_DELAY_SECONDS,
    build_status,
    throttle_status,
)
from gaudi_runtime.contract.report import (
    BucketPhase,
    ColdShape,
    Phase,
    PhaseProgressReport,
    RuntimeFailureReport,
    VisionProgressReport,
    WarmupReport,
)
from tests.unit.operator.core.pod_objects import condition, gate_condition, gated, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import DONE, serving, state_of, warming


def captured(prompt: int, decode: int = 48, phase: Phase = Phase.SERVING, **fields: Any) -> WarmupReport:
    return report(
        phase,
        prompt=PhaseProgressReport(planned=24, warmed=24, captured=prompt),
        decode=PhaseProgressReport(planned=48, warmed=48, captured=decode),
        **fields,
    )


def status(pods: Iterable[PodView], **fields: Any) -> GaudiInferenceStatus:
    return build_status(state_of(pods, **fields))


def moving(name: str, said: WarmupReport, revision: str = "new") -> PodView:
    return view(pod(name, revision=revision), said)


def test_captured_percentages_are_the_minimum_over_serving_pods() -> None:
    pods = [serving("a", said=captured(24, 12)), serving("b", said=captured(15, 48))]
    assert status(pods).captured_percent == CapturedPercent(prompt=62, decode=25)


def test_warming_pods_do_not_lower_the_captured_percentages() -> None:
    pods = [serving("a", said=captured(24)), moving("b", captured(0, 0, Phase.COMPILING))]
    assert status(pods).captured_percent == CapturedPercent(prompt=100, decode=100)


def test_captured_percentages_and_warm_up_are_of_the_current_revision() -> None:
    found = status([serving("a", "old", said=captured(24)), moving("b", captured(6, 0, Phase.CAPTURING))])
    assert found.captured_percent == CapturedPercent(prompt=25, decode=0)
    assert found.warmup == WarmupProgress(percent=54)


def test_captured_percentages_are_of_warming_pods_if_no_pod_serves() -> None:
    pods = [moving("a", captured(12, 0, Phase.CAPTURING)), moving("b", captured(6, 0, Phase.CAPTURING))]
    assert status(pods).captured_percent == CapturedPercent(prompt=25, decode=0)


def test_captured_percentages_of_unready_old_pods_are_ignored() -> None:
    assert status([moving("a", captured(12, 0, Phase.CAPTURING), "old")]).captured_percent == CapturedPercent()


def test_recompiles_are_reported_by_shape() -> None:
    shape = ColdShape(phase=BucketPhase.PROMPT, shape=(1, 300, 0), count=9, compiles=3)
    said = captured(24, cold_shapes=(shape,))
    found = status([serving("a", said=said), serving("b", said=said)]).recompiles
    assert [(each.count, each.compiles) for each in found.cold_shapes] == [(18, 6)]


def test_recompiles_are_summed_over_serving_pods() -> None:
    def cold(count: int) -> ColdShape:
        return ColdShape(phase=BucketPhase.PROMPT, shape=(1, 300, 0), count=count)

    rare = ColdShape(phase=BucketPhase.DECODE, shape=(4, 1, 9), count=1)
    pods = [
        serving("a", said=captured(24, recompiles_since_ready=2, cold_shapes=(cold(2), rare))),
        serving("b", said=captured(24, recompiles_since_ready=3, cold_shapes=(cold(3),))),
    ]
    found = status(pods).recompiles
    assert found.since_ready == 5
    assert [(shape.phase, shape.shape, shape.count) for shape in found.cold_shapes] == [
        ("prompt", (1, 300, 0), 5),
        ("decode", (4, 1, 9), 1),
    ]


def test_warmup_is_of_the_current_revisions_least_advanced_pod() -> None:
    pods = [
        serving("a", "old", said=captured(0, 0)),
        moving("b", captured(12, 0, Phase.CAPTURING)),
        moving("c", captured(0, 0, Phase.COMPILING)),
    ]
    assert status(pods).warmup == WarmupProgress(percent=50)


def test_warm_up_end_is_rounded_to_ten_seconds() -> None:
    found = status([moving("a", captured(0, 0, Phase.COMPILING, eta_seconds=93.0))]).warmup
    assert found is not None
    assert found.eta == "2026-08-01T12:01:30Z"


@pytest.mark.parametrize(("seconds", "eta"), [(100.0, "2026-08-01T12:01:30Z"), (110.0, "2026-08-01T12:01:50Z")])
def test_warm_up_end_is_updated_only_after_larger_changes(seconds: float, eta: str) -> None:
    before = GaudiInferenceStatus(warmup=WarmupProgress(eta="2026-08-01T12:01:30Z"))
    found = status([moving("a", captured(0, 0, Phase.COMPILING, eta_seconds=seconds))], previous_status=before).warmup
    assert found is not None
    assert found.eta == eta


def test_replica_counts_include_pods_of_all_revisions() -> None:
    found = status([serving("a", "old"), serving("b"), warming("c")])
    assert (found.replicas, found.updated_replicas, found.ready_replicas) == (3, 2, 2)


def test_selector_is_a_label_selector_string() -> None:
    assert status([]).selector == "inference.gaudi.dev/name=tiny"


def test_endpoint_is_the_service_url() -> None:
    assert status([]).endpoint == "http://tiny.models.svc:80/v1"


def test_pod_list_is_sorted_worst_first_and_limited_to_twenty() -> None:
    pods = [serving(f"s{index:02}", said=captured(24)) for index in range(20)]
    found = status([*pods, moving("w", captured(0, 0, Phase.COMPILING)), warming("z")]).pods
    assert [each.name for each in found[:3]] == ["z", "w", "s00"]
    assert len(found) == 20


def test_pod_status_has_the_warm_up_progress() -> None:
    (row,) = status([moving("a", captured(12, 0, Phase.CAPTURING, recompiles_since_ready=0))]).pods
    assert row == PodState(
        name="a",
        revision="new",
        phase="Capturing",
        gate=False,
        ready=False,
        warmup_percent=58,
        captured_percent=CapturedPercent(prompt=50, decode=0),
    )


@pytest.mark.parametrize(
    ("seen", "phase", "message"),
    [
        (view(pod(container=None, phase="Pending")), "Pending", None),
        (
            view(pod(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})),
            "ImagePullBackOff",
            "no such image",
        ),
        (view(pod(state={"terminated": {"exitCode": 1}})), "Ended", None),
        (view(pod()), "Starting", None),
        (view(pod(), None, ignored_reason="The report is not JSON."), "Starting", "The report is not JSON."),
        (
            view(pod(container=None, conditions=(condition("PodScheduled", False, "Unschedulable", "no cards"),))),
            "Unschedulable",
            "no cards",
        ),
        (view(gated("a.example/quota")), "SchedulingGated", "Held by the scheduling gate a.example/quota."),
        (view(gated("a", "b")), "SchedulingGated", "Held by the scheduling gates a, b."),
        (
            view(
                report=report(Phase.FAILED, failure=RuntimeFailureReport(reason="ModelNotFound", message="No folder."))
            ),
            "Failed",
            "No folder.",
        ),
        (view(report=report(warnings=("Graphs were left out.",))), "Serving", "Graphs were left out."),
        (
            view(pod(conditions=(gate_condition(False, "Too many compiles.", reason="Recompiling"),)), report()),
            "Serving",
            "Too many compiles.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pod_status_has_phase_and_blocking_reason(seen: PodView, phase: str, message: str | None) -> None:
    (row,) = status([seen]).pods
    assert (row.phase, row.message) == (phase, message)


def test_pod_status_has_the_shortfall_below_the_thresholds() -> None:
    short = captured(15)
    (row,) = status([view(report=short)]).pods
    assert (row.phase, ("WarmupIncomplete", row.message)) == (
        "Serving",
        explain_threshold_shortfall(short, Readiness()),
    )
    assert "9 of 24 prompt graphs" in (row.message or "")


def test_pod_status_is_kept_until_the_pod_reports() -> None:
    known = PodState(
        name="a",
        revision="new",
        phase="Capturing",
        gate=False,
        ready=False,
        warmup_percent=70,
        recompiles_since_ready=2,
    )
    (row,) = status([warming("a")], previous_status=GaudiInferenceStatus(pods=(known,))).pods
    assert row == known


def test_pod_status_is_reset_after_the_container_ended() -> None:
    known = PodState(name="a", revision="new", phase="Serving", gate=True, ready=True, warmup_percent=100)
    ended = view(pod("a", revision="new", state={"terminated": {"exitCode": 1}}))
    (row,) = status([ended], previous_status=GaudiInferenceStatus(pods=(known,))).pods
    assert (row.warmup_percent, row.phase) == (0, "Ended")


def test_status_values_are_kept_while_no_pod_has_reported() -> None:
    before = status([serving("a", said=captured(15, recompiles_since_ready=2))])
    after = status([serving("a")], previous_status=before)
    keys = ("captured_percent", "recompiles")
    assert [getattr(after, key) for key in keys] == [getattr(before, key) for key in keys]


@pytest.mark.parametrize(
    ("pods", "step", "reason"),
    [
        ([], None, "StartingPods"),
        ([view(pod("a", revision="new", container=None))], None, "StartingPods"),
        ([warming("a")], None, "WarmingUp"),
        ([view(pod("a", revision="new", conditions=(gate_condition(True),)))], None, "StartingPods"),
        ([serving("a"), serving("b"), serving("c")], None, "ScalingDown"),
        ([serving("a"), serving("b")], DONE, "Serving"),
        ([serving("a", "old"), warming("b")], None, "RollingOut"),
    ],
)
def test_reason_of_ready_summarizes_pods_and_rollout(pods: list[PodView], step: Any, reason: str) -> None:
    ready, *_ = status(pods, step=step).conditions
    assert (ready.type, ready.reason) == ("Ready", reason)


def test_phase_before_the_container_start_is_not_kept() -> None:
    before = status([view(gated("a.example/quota"))])
    (row,) = status([view(pod())], previous_status=before).pods
    assert (row.name, row.phase) == (before.pods[0].name, "Starting")


EARLIER = GaudiInferenceStatus(warmup=WarmupProgress(percent=10))
FURTHER = GaudiInferenceStatus(warmup=WarmupProgress(percent=11))


def test_status_change_is_delayed_to_batch_further_changes() -> None:
    deadlines = Deadlines(NOW)
    assert throttle_status(EARLIER, FURTHER, held(), deadlines) == (EARLIER, NOW)
    assert deadlines.requeue_after == pytest.approx(STATUS_DELAY_SECONDS + 0.1)
    since = NOW - timedelta(seconds=STATUS_DELAY_SECONDS - 0.5)
    assert throttle_status(EARLIER, FURTHER, held(STATUS_DELAY_SECONDS - 0.5), Deadlines(NOW)) == (EARLIER, since)
    assert throttle_status(EARLIER, FURTHER, held(STATUS_DELAY_SECONDS), Deadlines(NOW)) == (FURTHER, None)


def test_starting_operator_waits_for_the_first_reports() -> None:
    deadlines, started = Deadlines(NOW), replace(held(), status_written_at=None)
    assert throttle_status(EARLIER, FURTHER, started, deadlines, all_reported=False) == (EARLIER, NOW)
    assert deadlines.requeue_after == pytest.approx(FIRST_REPORTS_SECONDS + 0.1)
    silent = replace(held(FIRST_REPORTS_SECONDS), status_written_at=None)
    assert throttle_status(EARLIER, FURTHER, silent, Deadlines(NOW), all_reported=False) == (FURTHER, None)


@pytest.mark.parametrize(
    "remembered",
    [
        {"observed_generation": 2},
        {"revision": Revisions(current="new")},
        {"revisions": (RevisionStatus(name="new", number=1, phase=RevisionPhase.SERVING),)},
    ],
)
def test_fields_required_by_later_reconciles_are_written_immediately(remembered: dict[str, Any]) -> None:
    answer = FURTHER.model_copy(update=remembered)
    assert throttle_status(EARLIER, answer, held(), Deadlines(NOW)) == (answer, None)


def test_served_mark_of_a_revision_is_written_immediately() -> None:
    row = RevisionStatus(name="new", number=1, phase=RevisionPhase.SERVING)
    before = EARLIER.model_copy(update={"revisions": (row,)})
    after = EARLIER.model_copy(update={"revisions": (row.model_copy(update={"served": True}),)})
    assert throttle_status(before, after, held(), Deadlines(NOW)) == (after, None)


@pytest.mark.parametrize(("pods", "seconds"), [(1, STATUS_DELAY_SECONDS), (12, 3), (20, MANY_PODS_SECONDS), (1000, 5)])
def test_status_of_many_pods_is_written_less_often(pods: int, seconds: float) -> None:
    def shown(long: float) -> GaudiInferenceStatus:
        return throttle_status(EARLIER, FURTHER, replace(held(long), pods=({},) * pods), Deadlines(NOW))[0]

    assert shown(seconds - 0.5) == EARLIER
    assert shown(seconds) == FURTHER


@pytest.mark.parametrize("ready", [True, False])
def test_change_of_the_ready_condition_is_written_immediately(ready: bool) -> None:
    def shown(is_ready: bool) -> GaudiInferenceStatus:
        when = "2026-01-01T00:00:00Z"
        verdict = Condition(
            type="Ready", status="True" if is_ready else "False", reason="R", message="", last_transition_time=when
        )
        return GaudiInferenceStatus(conditions=(verdict,))

    assert throttle_status(shown(not ready), shown(ready), held(), Deadlines(NOW)) == (shown(ready), None)


def held(seconds: float | None = None) -> Observed:
    """Return an observed state in which a changed status has waited for `seconds`. If None, no status waits."""
    since = None if seconds is None else NOW - timedelta(seconds=seconds)
    return Observed({}, status_written_at=NOW, status_held_since=since)


def test_unchanged_status_does_not_requeue() -> None:
    deadlines = Deadlines(NOW)
    assert throttle_status(EARLIER, EARLIER, held(60), deadlines) == (EARLIER, None)
    assert deadlines.requeue_after is None


def test_status_without_a_revision_has_no_endpoint() -> None:
    nothing: State = state_of([], current=None, step=None)
    assert build_status(nothing).endpoint is None


def test_plan_has_the_number_of_vision_buckets() -> None:
    found = status([serving("a", said=captured(24, vision=VisionProgressReport(planned=4, warmed=3)))])
    assert found.plan is not None
    assert found.plan.vision_buckets == 4
