"""The class limits on fields outside the pod: Service, clients, the recipe PVC and the surge of a rollout.

A spec that exceeds these limits is refused as a whole, so its rollout stops. Existing children stay unchanged and keep
serving, even if a class becomes stricter. If a child is missing, the operator creates it within the limits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX, NetworkAccess, NetworkClient, ServiceType
from gaudi_operator.api.v1alpha1.selectors import SelectorOperator
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.classes import FORBIDDEN, ResolvedClass
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.planner import resolve_pod_count
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class LimitViolation:
    """A field of the spec that exceeds a class limit, with the reason and the kind of the affected child object."""

    where: str
    why: str
    kind: str | None = None


def spec_limit_violations(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[LimitViolation]:
    """Yield the fields of the spec that exceed the limits."""
    yield from _client_violations(spec.network_access, limits)
    yield from _service_violations(spec, limits)
    yield from _recipe_pvc_violations(spec, limits)
    surge = resolve_pod_count(spec.rollout.max_surge, _max_requested_replicas(spec), round_up=True)
    if limits.max_surge is not None and surge > limits.max_surge:
        yield LimitViolation(f"spec.rollout.maxSurge {surge}", f"is above {limits.max_surge} (limits.maxSurge)")


def first_limit_violation(spec: GaudiInferenceSpec, platform: ResolvedClass) -> Problem | None:
    """Return the first field of the spec that exceeds the limits of its class or, without a class, the defaults."""
    found = next(spec_limit_violations(spec, platform.limits), None)
    if found is None:
        return None
    if platform.says is None:
        return Problem("NeedsClass", f"{found.where} {found.why}. Remove the setting, or use a class that allows it.")
    return Problem(
        FORBIDDEN,
        f"{found.where} {found.why}, a limit of class {platform.name}. Change the field, or use another class.",
    )


def clamp_to_limits(inference: Inference, limits: ClassLimits) -> tuple[Inference, frozenset[str]]:
    """Return (resource within the limits, kinds of changed children).

    Only the spec fields for Service, clients and PVC are changed. Live children of the returned kinds stay unchanged.
    """
    spec = inference.spec
    kinds = frozenset(each.kind for each in spec_limit_violations(spec, limits) if each.kind)
    if not kinds:
        return inference, kinds
    changed: dict[str, object] = {}
    if "NetworkPolicy" in kinds:
        changed["network_access"] = NetworkAccess()
    if "Service" in kinds:
        annotations = {
            key: value for key, value in spec.service.annotations.items() if _annotation_is_allowed(key, limits)
        }
        changed["service"] = spec.service.model_copy(
            update={"type": ServiceType.CLUSTER_IP, "annotations": annotations}
        )
    if "PersistentVolumeClaim" in kinds:
        changed["recipe_cache"] = spec.recipe_cache.model_copy(update={"size": limits.max_recipe_cache_size})
    return replace(inference, spec=spec.model_copy(update=changed)), kinds


def _max_requested_replicas(spec: GaudiInferenceSpec) -> int:
    """Return the maximum number of replicas that the spec or its autoscaler requests."""
    return max(spec.replicas, spec.autoscaling.max_replicas if spec.autoscaling else 0)


_OPEN = "lets every namespace reach the model port (limits.allowAllClients)"


def _client_violations(access: NetworkAccess, limits: ClassLimits) -> Iterator[LimitViolation]:
    if limits.allow_all_clients:
        return
    asked = {
        "allowAllClients true": access.allow_all_clients,
        "enabled false": not access.enabled,
        "clients": any(map(_matches_all_clients, access.clients or ())),
    }
    for field, opens in asked.items():
        if opens:
            yield LimitViolation(f"spec.networkAccess.{field}", _OPEN, "NetworkPolicy")


def _matches_all_clients(client: NetworkClient) -> bool:
    """Return True if a client entry matches all namespaces, or an IP range that may contain a whole cluster."""
    if client.ip_block:
        return ip_network(client.ip_block.cidr, strict=False).prefixlen < SHORTEST_PREFIX
    selector = client.namespace_selector
    if selector is None:
        return False
    named = any(each.operator is SelectorOperator.IN for each in selector.match_expressions)
    return not selector.match_labels and not named


def _service_violations(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[LimitViolation]:
    service, types = spec.service, limits.service_types
    if types is not None and service.type is not ServiceType.CLUSTER_IP and service.type not in types:
        yield LimitViolation(
            f"spec.service.type {service.type.value}", _not_allowed_reason("serviceTypes", types), "Service"
        )
    for key in service.annotations:
        if not _annotation_is_allowed(key, limits):
            prefixes = limits.service_annotation_prefixes or ()
            why = _not_allowed_reason("serviceAnnotationPrefixes", prefixes)
            yield LimitViolation(f"spec.service.annotations {key}", why, "Service")


def _annotation_is_allowed(key: str, limits: ClassLimits) -> bool:
    prefixes = limits.service_annotation_prefixes
    return prefixes is None or key.startswith(prefixes)


def _recipe_pvc_violations(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[LimitViolation]:
    cache, most = spec.recipe_cache, limits.max_recipe_cache_size
    made = cache.enabled and not cache.existing_claim
    if made and most is not None and parse_quantity(cache.size) > parse_quantity(most):
        why = f"is above {most} (limits.maxRecipeCacheSize)"
        yield LimitViolation(f"spec.recipeCache.size {cache.size}", why, "PersistentVolumeClaim")


def _not_allowed_reason(limit: str, allowed: tuple[str, ...]) -> str:
    return f"is not an allowed value (limits.{limit}: {', '.join(allowed) or 'none'})"
