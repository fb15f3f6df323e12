"""The objects that control the number of pods: PodDisruptionBudget and HorizontalPodAutoscaler.

Node drains may evict as many pods as a rollout may replace, but at least one (docs/how-to/scaling.md). The autoscaler
writes spec.replicas through the scale subresource. The operator never writes this field.
"""

from math import ceil

from gaudi_operator.api.v1alpha1.autoscaling import Autoscaling
from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.pods.pod_progress import WARMED_UP_PHASES
from gaudi_operator.core.rendering.metadata import Object, child_manifest, selector_labels
from gaudi_operator.core.rollout.state import State


def pod_disruption_budget(inference: Inference, replicas: int, max_unavailable: int) -> Object:
    """Return the budget for all pods of a resource. `max_unavailable` of the `replicas` may be missing.

    The budget sets minAvailable. With maxUnavailable, Kubernetes would use the current size of the ReplicaSets, which
    is too low while pods are replaced in place.

    AlwaysAllow ensures that a pod that does not serve yet never blocks a drain.
    """
    owner = inference.identity
    spec = {
        "minAvailable": _min_available_pods(replicas - max(1, max_unavailable), inference.spec.parallelism.nodes),
        "selector": {"matchLabels": selector_labels(owner)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return child_manifest("policy/v1", "PodDisruptionBudget", owner.name, owner, {"spec": spec})


def _min_available_pods(replicas: int, group_size: int) -> int:
    """Return the minimum number of ready pods that keeps `replicas` groups complete. A group has `group_size` pods.

    Evicting one pod ends its whole group. With a lower minimum, the next eviction could end another required group.
    """
    return (replicas + 1) * group_size - 1 if replicas > 0 else 0


METRIC = "gaudi_requests_running"
"""The metric of the pods' own /metrics for running requests (docs/reference/metrics.md)."""

TARGET_PERCENT = 80
"""The default target in percent of a pod's sequences. Kubernetes' own default is 80 % of the requested CPU."""

LEAST_WINDOW, MOST_WINDOW = 300, 3600
"""Bounds of the default stabilization window for scale-down, in seconds: the default and the maximum of Kubernetes."""


def horizontal_pod_autoscaler(inference: Inference, autoscaling: Autoscaling, window_seconds: int) -> Object:
    """Build the autoscaler of the resource. `window_seconds` is the default of scaleDown.stabilizationWindowSeconds."""
    owner, behavior = inference.identity, autoscaling.behavior
    spec = {
        "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": owner.name},
        "minReplicas": autoscaling.min_replicas,
        "maxReplicas": autoscaling.max_replicas,
        "metrics": list(autoscaling.metrics) or [_running_requests_metric(inference)],
        "behavior": {**behavior, "scaleDown": _add_window(behavior.get("scaleDown", {}), window_seconds)},
    }
    return child_manifest("autoscaling/v2", "HorizontalPodAutoscaler", owner.name, owner, {"spec": spec})


def _add_window(rules: object, seconds: int) -> object:
    """Return scaling rules with a stabilization window. The API server refuses rules of another type."""
    return {"stabilizationWindowSeconds": seconds, **rules} if isinstance(rules, dict) else rules


def _running_requests_metric(inference: Inference) -> Object:
    # Each copy of the weights runs maxNumSeqs sequences.
    sequences = inference.spec.engine.max_num_seqs * inference.spec.parallelism.data
    target = {"type": "AverageValue", "averageValue": str(max(1, sequences * TARGET_PERCENT // 100))}
    return {"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}


def scale_down_window(state: State) -> int:
    """Return the default stabilization window in seconds. If a pod is removed too early, a new pod must warm up.

    The window is the measured warm-up time of the plan. Until a pod of the current revision has measured this time, the
    window is the longest warm-up time that serving revisions report.
    """
    plan = state.plan
    if plan is not None and plan.warmup_seconds is not None:
        seconds: float = plan.warmup_seconds
    else:
        reports = (pod.report for pod in state.active_pods if pod.report)
        seconds = max((report.elapsed_seconds for report in reports if report.phase in WARMED_UP_PHASES), default=0)
    return min(max(LEAST_WINDOW, 60 * ceil(seconds / 60)), MOST_WINDOW)
