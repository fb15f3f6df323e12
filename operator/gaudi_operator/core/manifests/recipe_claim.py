"""The volume claim that pods share compiled recipes over (docs/warmup.md, Recipe cache)."""

from gaudi_operator.api.v1alpha1.warmup import RecipeCache
from gaudi_operator.core.inference import Identity
from gaudi_operator.core.manifests.metadata import Object, child
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.quantity import parse_quantity


def recipe_claim_name(owner: Identity) -> str:
    """`<resource>-recipes`."""
    return f"{owner.name}-recipes"


def recipe_claim(owner: Identity, cache: RecipeCache, live: Manifest | None) -> Object:
    """The claim. It outlives every revision and goes with the resource.

    A `live` claim that was made larger by others keeps its size: Kubernetes refuses to make one smaller.
    """
    storage = max(filter(None, (cache.size, _requested(live))), key=parse_quantity)
    spec: Object = {"accessModes": [cache.access_mode.value], "resources": {"requests": {"storage": storage}}}
    if cache.storage_class_name:
        spec["storageClassName"] = cache.storage_class_name
    return child("v1", "PersistentVolumeClaim", recipe_claim_name(owner), owner, {"spec": spec})


def _requested(live: Manifest | None) -> str | None:
    spec = live["spec"] if live else {}
    requested = spec.get("resources", {}).get("requests", {}).get("storage")
    return None if requested is None else str(requested)
