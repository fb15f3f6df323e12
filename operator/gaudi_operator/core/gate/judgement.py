"""The judgement of readiness gates: when a gate opens and when it closes.

A gate opens if a report meets the thresholds. It closes only if a report or the kubelet shows a reason. It does not
change while a pod is unreachable, a report is late or unreadable, or the operator is down.

A gate also closes after more than readiness.maxRecentRecompiles recompilations within five minutes, because requests
wait for compiles. It opens after five minutes without a recompilation. Between these limits the gate does not change.
The condition records why the gate is closed, so that a later leader can continue (docs/reference/conditions.md). At
least the promised number of pods keeps serving, even if these pods recompile.
"""

from collections.abc import Iterable, Mapping, Sequence

from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Readiness
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import (
    GateConditionInstance,
    gate_condition_instance,
    is_gate_condition_settling,
)
from gaudi_operator.core.gate.thresholds import (
    CAPTURED_BELOW_THRESHOLD,
    WARMUP_INCOMPLETE,
    captured_counts_for_thresholds,
    explain_threshold_shortfall,
    has_fewer_graphs,
    shortfalls,
)
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_runtime.contract.report import WarmupReport

RECOMPILING = "Recompiling"
"""The reason of a gate that is closed because requests wait for compiles."""


def _limit_recompiles(
    gates: Mapping[str, SetGate],
    pods: Sequence[PodView],
    readiness: Readiness,
    min_available_pods: int,
    deadlines: Deadlines,
    pending_removals: int,
) -> dict[str, SetGate]:
    """Return `gates` by pod UID, changed by the recompilation limit.

    Writes that close gates of recompiling pods are added. Writes that open gates are removed if the gates must stay
    closed. The other arguments are those of judge_gates().
    """
    writes = dict(gates)
    if readiness.on_recompiles is not OnRecompiles.CLOSE_GATE:
        return writes
    closing_uids = {uid for uid, gate in writes.items() if not gate.open}
    serving = [pod for pod in pods if pod.is_ready and pod.uid not in closing_uids]
    # Keep at least one pod serving, because slow answers are better than none.
    spare_count = len(serving) - pending_removals - max(1, min_available_pods)
    settling_count = sum(is_gate_condition_settling(pod, deadlines) for pod in pods)
    # Reopen gates before closing other gates, so that two gates are not closed at the same time.
    waiting = [pod.uid for pod in _sort_by_recompiles(pods) if pod.uid in writes and _is_kept_closed(pod)]
    for uid in waiting[max(0, -spare_count - settling_count) :]:
        del writes[uid]
    return writes | {
        pod.uid: _close_for_recompiles(pod) for pod in _pods_above_limit(serving, readiness)[: max(0, spare_count)]
    }


def _pods_above_limit(serving: Iterable[PodView], readiness: Readiness) -> list[PodView]:
    """Return the pods above the recompilation limit. Pods with the most recompilations come first."""
    return [pod for pod in _sort_by_recompiles(serving) if _recent_recompiles(pod) > readiness.max_recent_recompiles][
        ::-1
    ]


def _sort_by_recompiles(pods: Iterable[PodView]) -> list[PodView]:
    return sorted(pods, key=lambda pod: (_recent_recompiles(pod), pod.name))


def _is_kept_closed(pod: PodView) -> bool:
    """Return True if the gate was closed for recompilations and some of the recompilations are still recent."""
    return pod.gate is not None and pod.gate.reason == RECOMPILING and _recent_recompiles(pod) > 0


def _recent_recompiles(pod: PodView) -> int:
    return pod.report.recent_recompiles if pod.report else 0


def _close_for_recompiles(pod: PodView) -> SetGate:
    cause = f"Requests waited for {_recent_recompiles(pod)} compiles within five minutes"
    message = f"{cause}. The gate opens after five minutes without a compile."
    return SetGate(pod.name, pod.uid, False, RECOMPILING, message)


ADD_SIZES = (
    "The log of the pod lists the image sizes. Add these sizes to VLLM_MULTIMODAL_RESOLUTIONS in spec.engine.settings."
)


def has_only_vision_recompiles(report: WarmupReport) -> bool:
    """Return True if only vision inputs caused recompilations. Additional token buckets would then not help."""
    return bool(report.served.vision and report.served.vision.recompiles and not report.cold_shapes)


REOPEN_SECONDS = 1
"""The minimum seconds for which a gate stays closed. They limit the writes for a pod whose reports alternate."""

WARMED_UP = "WarmedUp"
"""The reason of an open gate if all planned graphs are captured."""

FEWER_GRAPHS = "FewerGraphs"
"""The reason of an open gate if the warm-up is complete, but graphs were left out by a limit or for memory."""

BELOW_THRESHOLD = "OpenedBelowThreshold"
"""The reason of an open gate if the warm-up is incomplete or below thresholds, but onShortfall allows that."""


_REASONS_OF_SPEC = frozenset({CAPTURED_BELOW_THRESHOLD, WARMUP_INCOMPLETE, RECOMPILING})
"""The reasons of a closed gate that depend on spec.readiness."""


def judge_gate(pod: PodView, readiness: Readiness, deadlines: Deadlines) -> SetGate | None:
    """Judge the gate of `pod`. Return the gate write, or None if the gate must not change now."""
    if not pod.is_active:
        return None
    if pod.report is not None and pod.container is not None:
        shortfall = explain_threshold_shortfall(pod.report, readiness)
        if shortfall is None and _has_just_closed(pod, deadlines):
            return None
        if shortfall is None:
            return _open_gate(
                pod, GateConditionInstance(pod.container.id, pod.report.instance, pod.report.plan_hash), readiness
            )
        return _close_gate(pod, *shortfall) if pod.is_gate_open else None
    if pod.is_gate_open and (explanation := _explain_lost_container(pod)):
        return _close_gate(pod, *explanation)
    return None


def _has_just_closed(pod: PodView, deadlines: Deadlines) -> bool:
    # For a closed gate, `since` is the time when the gate closed, because gates close without a delay.
    since = pod.gate.since if pod.gate and not pod.is_gate_open else None
    return since is not None and not deadlines.has_passed(since, REOPEN_SECONDS)


def _open_gate(pod: PodView, record: GateConditionInstance, readiness: Readiness) -> SetGate | None:
    # Skip the apply if nothing changed. Otherwise each reconcile would send one request per pod. A gate without a known
    # time is written again, because the observation of a canary starts at this time.
    if pod.open_since and gate_condition_instance(pod) == record:
        return None
    assert pod.report is not None  # noqa: S101 - judge_gate() opens on a report only
    clauses = shortfalls(pod.report, readiness)
    complete_reason = FEWER_GRAPHS if has_fewer_graphs(pod.report) and not pod.report.warmup_skipped else WARMED_UP
    reason = BELOW_THRESHOLD if clauses else complete_reason
    description = (
        f"Serves below the thresholds, because spec.readiness.onShortfall is ServeAndWarn: {'; '.join(clauses)}"
        if clauses
        else captured_counts_for_thresholds(pod.report)
    )
    text = f"{description[0].upper()}{description[1:]}. {record}"
    return SetGate(pod.name, pod.uid, True, reason, text, is_rewrite=pod.gate is not None)


def _close_gate(pod: PodView, reason: str, message: str) -> SetGate:
    return SetGate(pod.name, pod.uid, False, reason, message)


def _explain_lost_container(pod: PodView) -> tuple[str, str] | None:
    """Return (reason, message) if the kubelet reports that the container for which the gate was judged is gone."""
    container, record = pod.container, gate_condition_instance(pod)
    if container is None:
        return None
    if not container.running:
        state = container.waiting_reason or str(container.last_exit or "not running")
        return "ContainerNotRunning", f"The container is not running ({state}). The next container must warm up first."
    # If the pod is ready, the new container has warmed up while no operator watched. The next report decides.
    if record is not None and container.id != record.container and not pod.is_ready:
        return (
            "ContainerRestarted",
            f"Container {container.id} has replaced container {record.container} and must warm up first.",
        )
    return None


def judge_gates(
    pods: Sequence[PodView],
    readiness: Readiness,
    min_available_pods: int,
    deadlines: Deadlines,
    pending_removals: int = 0,
    *,
    spec_is_readable: bool = True,
) -> list[SetGate]:
    """Judge the gates of all pods, and return the gate writes.

    At least `min_available_pods` pods keep serving even if they recompile. If `min_available_pods` is 0, one pod keeps
    serving. The workload controllers are about to remove `pending_removals` serving pods, which do not count
    towards `min_available_pods`. If `spec_is_readable` is False, the numbers may be defaults in place of what the user
    wrote. Then gates open only if all graphs are captured, and close only for a reason that does not depend on the
    spec.
    """
    if not spec_is_readable:
        all_graphs = {"min_captured_prompt_percent": 100, "min_captured_decode_percent": 100}
        readiness = readiness.model_copy(update=all_graphs)
    gates = {pod.uid: gate for pod in pods if (gate := judge_gate(pod, readiness, deadlines))}
    writes = _limit_recompiles(gates, pods, readiness, min_available_pods, deadlines, pending_removals)
    return [gate for gate in writes.values() if gate.open or spec_is_readable or gate.reason not in _REASONS_OF_SPEC]
