"""The PodDisruptionBudget: node drains take as many pods as a rollout may, and at least one."""

from gaudi_operator.core.inference import Inference
from gaudi_operator.core.manifests.metadata import Object, child, selector_labels


def pod_disruption_budget(inference: Inference, max_unavailable: int) -> Object:
    """The budget over all pods of a resource. `max_unavailable` in pods; at least one, or nodes could never drain.

    AlwaysAllow: a pod that does not serve yet protects nobody, so it never blocks a drain.
    """
    owner = inference.identity
    spec = {
        "maxUnavailable": max(1, max_unavailable),
        "selector": {"matchLabels": selector_labels(owner)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return child("policy/v1", "PodDisruptionBudget", owner.name, owner, {"spec": spec})
