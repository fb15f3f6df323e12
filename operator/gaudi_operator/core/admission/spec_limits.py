"""The class limits on fields outside the pod: Service, clients, the recipe PVC and the surge of a rollout.

A spec that exceeds these limits is refused as a whole, so its rollout stops. Existing children stay unchanged and keep
serving, even if a class becomes stricter. If a child is missing, the operator creates it within the limits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX, AccessFrom, NetworkAccess, ServiceType
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.classes import FORBIDDEN, ResolvedClass
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.planner import resolve_pod_count
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class LimitViolation:
    """A field of the spec that exceeds a class limit, with the reason and the kind of the affected child object."""

    field: str
    reason: str
    kind: str | None = None


def spec_limit_violations(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[LimitViolation]:
    """Yield the fields of the spec that exceed the limits."""
    yield from _client_violations(spec.network_access, limits)
    yield from _service_violations(spec, limits)
    yield from _recipe_pvc_violations(spec, limits)
    max_surge = resolve_pod_count(spec.rollout.max_surge, _max_requested_replicas(spec), round_up=True)
    if limits.max_surge is not None and max_surge > limits.max_surge:
        yield LimitViolation(f"spec.rollout.maxSurge {max_surge}", f"is above {limits.max_surge} (limits.maxSurge)")


def first_limit_violation(spec: GaudiInferenceSpec, platform: ResolvedClass) -> Problem | None:
    """Return the first field of the spec that exceeds the limits of its class or, without a class, the defaults."""
    violation = next(spec_limit_violations(spec, platform.limits), None)
    if violation is None:
        return None
    if platform.spec is None:
        return Problem(
            "NeedsClass", f"{violation.field} {violation.reason}. Remove the setting, or use a class that allows it."
        )
    return Problem(
        FORBIDDEN,
        f"{violation.field} {violation.reason}, a limit of class {platform.name}. Change the field, or use "
        "another class.",
    )


def clamp_to_limits(inference: Inference, limits: ClassLimits) -> tuple[Inference, frozenset[str]]:
    """Return (resource within the limits, kinds of changed children).

    Only the spec fields for Service, clients and PVC are changed. Live children of the returned kinds stay unchanged.
    """
    spec = inference.spec
    kinds = frozenset(violation.kind for violation in spec_limit_violations(spec, limits) if violation.kind)
    if not kinds:
        return inference, kinds
    changes: dict[str, object] = {}
    if "NetworkPolicy" in kinds:
        changes["network_access"] = NetworkAccess()
    if "Service" in kinds:
        annotations = {
            key: value for key, value in spec.service.annotations.items() if _annotation_is_allowed(key, limits)
        }
        changes["service"] = spec.service.model_copy(
            update={"type": ServiceType.CLUSTER_IP, "annotations": annotations}
        )
    if "PersistentVolumeClaim" in kinds and spec.recipe_cache:
        changes["recipe_cache"] = spec.recipe_cache.model_copy(update={"size": limits.max_recipe_cache_size})
    return replace(inference, spec=spec.model_copy(update=changes)), kinds


def _max_requested_replicas(spec: GaudiInferenceSpec) -> int:
    """Return the maximum number of replicas that the spec or its autoscaler requests."""
    return max(spec.replicas, spec.autoscaling.max_replicas if spec.autoscaling else 0)


_OPEN = "lets every namespace reach the model port (limits.allowAllClients)"


def _client_violations(access: NetworkAccess, limits: ClassLimits) -> Iterator[LimitViolation]:
    if limits.allow_all_clients:
        return
    settings = {
        f"from {access.access_from}": access.access_from in (AccessFrom.EVERYONE, AccessFrom.UNMANAGED),
        "clients": any(map(_matches_all_clients, access.clients or ())),
    }
    for field, is_open in settings.items():
        if is_open:
            yield LimitViolation(f"spec.networkAccess.{field}", _OPEN, "NetworkPolicy")


def _matches_all_clients(client: Mapping[str, Any]) -> bool:
    """Return True if a client entry matches all namespaces, or an IP range that may contain a whole cluster.

    The API server refuses an entry of another form.
    """
    match client:
        case {"ipBlock": {"cidr": str(cidr)}}:
            return _prefix_length(cidr) < SHORTEST_PREFIX
        case {"namespaceSelector": {"matchLabels": dict(labels)}} if labels:
            return False
        case {"namespaceSelector": {"matchExpressions": list(expressions)}}:
            return not any(isinstance(each, dict) and each.get("operator") == "In" for each in expressions)
    return client.get("namespaceSelector") is not None


def _prefix_length(cidr: str) -> int:
    """Return the prefix length of an IP range; 0 if the text is no range."""
    try:
        return ip_network(cidr, strict=False).prefixlen
    except ValueError:
        return 0


def _service_violations(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[LimitViolation]:
    service, types = spec.service, limits.service_types
    if types is not None and service.type is not ServiceType.CLUSTER_IP and service.type not in types:
        yield LimitViolation(
            f"spec.service.type {service.type.value}", _not_allowed_reason("serviceTypes", types), "Service"
        )
    for key in service.annotations:
        if not _annotation_is_allowed(key, limits):
            prefixes = limits.service_annotation_prefixes or ()
            reason = _not_allowed_reason("serviceAnnotationPrefixes", prefixes)
            yield LimitViolation(f"spec.service.annotations {key}", reason, "Service")


def _annotation_is_allowed(key: str, limits: ClassLimits) -> bool:
    prefixes = limits.service_annotation_prefixes
    return prefixes is None or key.startswith(prefixes)


def _recipe_pvc_violations(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[LimitViolation]:
    cache, max_size = spec.recipe_cache, limits.max_recipe_cache_size
    if cache is None or cache.existing_claim or max_size is None:
        return
    if parse_quantity(cache.size) > parse_quantity(max_size):
        reason = f"is above {max_size} (limits.maxRecipeCacheSize)"
        yield LimitViolation(f"spec.recipeCache.size {cache.size}", reason, "PersistentVolumeClaim")


def _not_allowed_reason(limit: str, allowed_values: tuple[str, ...]) -> str:
    return f"is not an allowed value (limits.{limit}: {', '.join(allowed_values) or 'none'})"
