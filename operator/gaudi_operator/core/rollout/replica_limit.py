"""The maximum number of replicas that a class allows (limits.maxReplicas and limits.maxCards).

The operator does not refuse a resource that requests more replicas. It runs as many replicas as the class allows. If
the limit becomes lower, existing replicas of a revision stay, so that a change of a class removes no pods.
"""

from dataclasses import replace

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.rollout.replicas import full_replicas_by_revision
from gaudi_operator.core.rollout.revision import Revision


def limit_replicas(inference: Inference, limits: ClassLimits, revision: Revision, observed: Observed) -> Inference:
    """Return the resource with the replicas and the bounds of its autoscaler that `revision` may have."""
    limit, _ = _lowest_limit(limits, revision)
    if limit is None:
        return inference
    spec, most = inference.spec, max(limit, full_replicas_by_revision(observed).get(revision.name, 0))
    changes: dict[str, object] = {"replicas": min(spec.replicas, most)}
    if bounds := spec.autoscaling:
        # An autoscaler must be allowed to run one replica.
        highest = max(1, min(bounds.max_replicas, most))
        lowered = {"max_replicas": highest, "min_replicas": min(bounds.min_replicas, highest)}
        changes["autoscaling"] = bounds.model_copy(update=lowered)
    return replace(inference, spec=spec.model_copy(update=changes))


def describe_excess(inference: Inference, limits: ClassLimits, revision: Revision) -> str | None:
    """Return a phrase about the requested replicas that exceed the limit, or None if they are within the limit."""
    (limit, name), bounds = _lowest_limit(limits, revision), inference.spec.autoscaling
    requested = {
        "spec.replicas": inference.spec.replicas,
        "spec.autoscaling.maxReplicas": bounds.max_replicas if bounds else 0,
    }
    excess = (f"{field} {count}" for field, count in requested.items() if limit is not None and count > limit)
    field = next(excess, None)
    return f"{field} is above {limit} (limits.{name})" if field else None


def _lowest_limit(limits: ClassLimits, revision: Revision) -> tuple[int | None, str]:
    """Return (maximum number of replicas or None, name of the limit)."""
    found = [(limits.max_replicas, "maxReplicas")] if limits.max_replicas is not None else []
    if limits.max_cards is not None and revision.cards_per_replica:
        found.append((limits.max_cards // revision.cards_per_replica, "maxCards"))
    return min(found, default=(None, ""))
