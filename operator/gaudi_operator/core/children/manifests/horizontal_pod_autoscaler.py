"""The HorizontalPodAutoscaler: it writes spec.replicas by the scale subresource, and the operator never does."""

from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND
from gaudi_operator.api.v1alpha1.scaling import Autoscaling
from gaudi_operator.core.children.manifests.metadata import Object, child
from gaudi_operator.core.resource import Identity

METRIC = "gaudi_requests_running"
"""What the pods' own /metrics say of the requests that they answer (docs/metrics.md)."""


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
