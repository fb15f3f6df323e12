"""How many pods there are: the PodDisruptionBudget keeps some through drains, the HorizontalPodAutoscaler sets more.

Node drains take as many pods as a rollout may, and at least one (docs/how-to/scaling.md). The autoscaler writes
spec.replicas by the scale subresource; the operator never does.
"""

from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.api.v1alpha1.scaling import Autoscaling
from gaudi_operator.core.rendering.metadata import Object, child, selector_labels
from gaudi_operator.core.resource import Identity, Inference


def pod_disruption_budget(inference: Inference, desired: int, max_unavailable: int) -> Object:
    """The budget over all pods of a resource: `desired` replicas, of which `max_unavailable` may be missing.

    It names how many stay, not how many may go: the latter is counted from what the ReplicaSets ask for at the
    moment, which is less than what is desired while pods are replaced in place.

    AlwaysAllow: a pod that does not serve yet protects nobody, so it never blocks a drain.
    """
    owner = inference.identity
    spec = {
        "minAvailable": _least_pods(desired - max(1, max_unavailable), inference.spec.parallelism.nodes),
        "selector": {"matchLabels": selector_labels(owner)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return child("policy/v1", "PodDisruptionBudget", owner.name, owner, {"spec": spec})


def _least_pods(replicas: int, pods: int) -> int:
    """Ready pods that must stay so that `replicas` of so many `pods` each do: the next one takes a whole replica."""
    return (replicas + 1) * pods - 1 if replicas > 0 else 0


METRIC = "gaudi_requests_running"
"""What the pods' own /metrics say of the requests that they answer (docs/reference/metrics.md)."""


def horizontal_pod_autoscaler(owner: Identity, desired: Autoscaling) -> Object:
    """An autoscaler that aims for an average of METRIC over the pods of a resource."""
    target = {"type": "AverageValue", "averageValue": str(desired.target_running_requests)}
    spec = {
        "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": owner.name},
        "minReplicas": desired.min_replicas,
        "maxReplicas": desired.max_replicas,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": METRIC}, "target": target}}],
    }
    return child("autoscaling/v2", "HorizontalPodAutoscaler", owner.name, owner, {"spec": spec})
