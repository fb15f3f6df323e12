"""The volume on which pods share compiled recipes (docs/how-to/recipe-cache.md).

This module builds the PVC, and the ConfigMap that lists the revisions that may still run.
"""

from collections.abc import Iterable
from posixpath import basename

from gaudi_operator.api.v1alpha1.warmup import RecipeCache, RetentionPolicy
from gaudi_operator.core.inference import Identity
from gaudi_operator.core.names import RECIPE_PVC_SUFFIX
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.rendering.metadata import Object, child_manifest
from gaudi_runtime.contract.config import KeptRevisions
from gaudi_runtime.contract.ports import KEPT_REVISIONS_PATH


def recipe_pvc_name(owner: Identity) -> str:
    """Return the name of the recipe PVC: `<resource>-recipes`."""
    return f"{owner.name}{RECIPE_PVC_SUFFIX}"


def recipe_pvc(owner: Identity, cache: RecipeCache, live_pvc: Manifest | None) -> Object:
    """Return the recipe PVC.

    The PVC outlives every revision. It is deleted with the resource, unless its retention policy is Retain. If someone
    has enlarged `live_pvc`, the result has the larger size, because Kubernetes does not allow shrinking.
    """
    storage = max(filter(None, (cache.size, _requested_storage(live_pvc))), key=parse_quantity)
    spec: Object = {"accessModes": [cache.access_mode.value], "resources": {"requests": {"storage": storage}}}
    if cache.storage_class_name:
        spec["storageClassName"] = cache.storage_class_name
    retained = cache.retention_policy is RetentionPolicy.RETAIN
    return child_manifest(
        "v1", "PersistentVolumeClaim", recipe_pvc_name(owner), owner, {"spec": spec}, outlives_owner=retained
    )


def _requested_storage(live_pvc: Manifest | None) -> str | None:
    spec = live_pvc["spec"] if live_pvc else {}
    requested = spec.get("resources", {}).get("requests", {}).get("storage")
    return None if requested is None else str(requested)


def kept_revisions_config_map(owner: Identity, names: Iterable[str]) -> Object:
    """Return the ConfigMap that lists the revisions whose recipes are kept.

    The ConfigMap has the name of the PVC. Its content changes while pods run.
    """
    text = KeptRevisions(resource=owner.uid, revisions=tuple(sorted(names))).model_dump_json()
    return child_manifest(
        "v1", "ConfigMap", recipe_pvc_name(owner), owner, {"data": {basename(KEPT_REVISIONS_PATH): text}}
    )
