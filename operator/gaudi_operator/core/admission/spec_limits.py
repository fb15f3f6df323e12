"""The limits of a class on what no pod shows: the Service, its clients, the PVC of recipes, and the surge of a rollout.

A spec beyond them is refused as a whole, so its rollout stops. Children that exist stay as they are: what serves goes
on serving, also where a class becomes stricter. A child that is missing is created within the limits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_network

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX, Client, NetworkAccess, ServiceType
from gaudi_operator.api.v1alpha1.selectors import SelectorOperator
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.classes import FORBIDDEN, Platform
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.planner import scaled_amount
from gaudi_runtime.errors import Problem


@dataclass(frozen=True)
class Excess:
    """A field of the spec that is beyond the limits, with the reason and the kind of the child that it would change."""

    where: str
    why: str
    kind: str | None = None


def beyond_spec_limits(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[Excess]:
    """Yield the fields of the spec that are beyond the limits."""
    yield from _clients(spec.network_access, limits)
    yield from _service(spec, limits)
    yield from _recipes(spec, limits)
    surge = scaled_amount(spec.rollout.max_surge, _most_replicas(spec), round_up=True)
    if limits.max_surge is not None and surge > limits.max_surge:
        yield Excess(f"spec.rollout.maxSurge {surge}", f"is above {limits.max_surge} (limits.maxSurge)")


def why_not_allowed(spec: GaudiInferenceSpec, platform: Platform) -> Problem | None:
    """The first thing in a spec that the class of a resource, or the absence of one, does not allow."""
    found = next(beyond_spec_limits(spec, platform.limits), None)
    if found is None:
        return None
    if platform.says is None:
        return Problem("NeedsClass", f"{found.where} {found.why}: leave it out, or use a class that allows it.")
    return Problem(
        FORBIDDEN, f"{found.where} {found.why}, as class {platform.name} says: change it, or use another class."
    )


def within_limits(inference: Inference, limits: ClassLimits) -> tuple[Inference, frozenset[str]]:
    """Return the resource with the Service, clients and PVC that the limits allow, and the kinds of children changed.

    Live children of these kinds stay as they are.
    """
    spec = inference.spec
    kinds = frozenset(each.kind for each in beyond_spec_limits(spec, limits) if each.kind)
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


def _most_replicas(spec: GaudiInferenceSpec) -> int:
    """The most replicas that the spec asks for, those of its autoscaler included."""
    return max(spec.replicas, spec.autoscaling.max_replicas if spec.autoscaling else 0)


_OPEN = "lets every namespace reach the model port (limits.allowAllClients)"


def _clients(access: NetworkAccess, limits: ClassLimits) -> Iterator[Excess]:
    if limits.allow_all_clients:
        return
    asked = {
        "allowAllClients true": access.allow_all_clients,
        "enabled false": not access.enabled,
        "clients": any(map(_is_everyone, access.clients or ())),
    }
    for field, opens in asked.items():
        if opens:
            yield Excess(f"spec.networkAccess.{field}", _OPEN, "NetworkPolicy")


def _is_everyone(client: Client) -> bool:
    """Whether an entry names no namespace in particular, or a range as large as that of a cluster's addresses."""
    if client.ip_block:
        return ip_network(client.ip_block.cidr, strict=False).prefixlen < SHORTEST_PREFIX
    selector = client.namespace_selector
    if selector is None:
        return False
    named = any(each.operator is SelectorOperator.IN for each in selector.match_expressions)
    return not selector.match_labels and not named


def _service(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[Excess]:
    service, types = spec.service, limits.service_types
    if types is not None and service.type is not ServiceType.CLUSTER_IP and service.type not in types:
        yield Excess(f"spec.service.type {service.type.value}", _unlisted("serviceTypes", types), "Service")
    for key in service.annotations:
        if not _annotation_is_allowed(key, limits):
            prefixes = limits.service_annotation_prefixes or ()
            why = _unlisted("serviceAnnotationPrefixes", prefixes)
            yield Excess(f"spec.service.annotations {key}", why, "Service")


def _annotation_is_allowed(key: str, limits: ClassLimits) -> bool:
    prefixes = limits.service_annotation_prefixes
    return prefixes is None or key.startswith(prefixes)


def _recipes(spec: GaudiInferenceSpec, limits: ClassLimits) -> Iterator[Excess]:
    cache, most = spec.recipe_cache, limits.max_recipe_cache_size
    made = cache.enabled and not cache.existing_claim
    if made and most is not None and parse_quantity(cache.size) > parse_quantity(most):
        why = f"is above {most} (limits.maxRecipeCacheSize)"
        yield Excess(f"spec.recipeCache.size {cache.size}", why, "PersistentVolumeClaim")


def _unlisted(limit: str, allowed: tuple[str, ...]) -> str:
    return f"is not among what is allowed (limits.{limit}: {', '.join(allowed) or 'none'})"
