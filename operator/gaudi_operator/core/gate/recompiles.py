"""The recompilation limit: gates close while requests wait for compiles (docs/reference/conditions.md).

A gate closes after more than readiness.maxRecentRecompiles recompilations within five minutes. It opens after five
minutes without a recompilation. Between these limits the gate does not change. The condition records why the gate is
closed, so that a later leader can continue.

At least the promised number of pods keeps serving, even if these pods recompile.
"""

from collections.abc import Iterable, Mapping, Sequence

from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Readiness
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import is_settling
from gaudi_operator.core.pods.view import PodView
from gaudi_runtime.contract.report import WarmupReport

RECOMPILING = "Recompiling"
"""The reason of a gate that is closed because requests wait for compiles."""


def limit_recompiles(
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
    settling_count = sum(is_settling(pod, deadlines) for pod in pods)
    # Reopen gates before closing other gates, so that two gates are not closed at the same time.
    waiting = [pod.uid for pod in _sort_by_recompiles(pods) if pod.uid in writes and _is_kept_closed(pod)]
    for uid in waiting[max(0, -spare_count - settling_count) :]:
        del writes[uid]
    return writes | {pod.uid: _close_gate(pod) for pod in _pods_above_limit(serving, readiness)[: max(0, spare_count)]}


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


def _close_gate(pod: PodView) -> SetGate:
    cause = f"Requests waited for {_recent_recompiles(pod)} compiles within five minutes"
    message = f"{cause}. The gate opens after five minutes without a compile."
    return SetGate(pod.name, pod.uid, False, RECOMPILING, message)


ADD_SIZES = (
    "The log of the pod lists the image sizes. Add these sizes to VLLM_MULTIMODAL_RESOLUTIONS in spec.engine.settings."
)


def has_only_vision_recompiles(report: WarmupReport) -> bool:
    """Return True if only vision inputs caused recompilations. Additional token buckets would then not help."""
    return bool(report.served.vision and report.served.vision.recompiles and not report.cold_shapes)
