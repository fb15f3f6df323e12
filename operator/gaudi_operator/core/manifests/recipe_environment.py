"""Variables of a container that shares recipes: its revision, and what a store of recipes wants to see."""

from gaudi_operator.api.v1alpha1.recipe_store import RecipeObjectStore
from gaudi_operator.api.v1alpha1.warmup import RecipeCache
from gaudi_operator.core.manifests.metadata import Object
from gaudi_operator.core.names import REVISION_LABEL
from gaudi_runtime.contract.ports import (
    REVISION_VARIABLE,
    STORE_KEY_ID_VARIABLE,
    STORE_SECRET_VARIABLE,
    STORE_SESSION_VARIABLE,
    STORE_TOKEN_VARIABLE,
)

_KEYS = {
    STORE_KEY_ID_VARIABLE: "AWS_ACCESS_KEY_ID",
    STORE_SECRET_VARIABLE: "AWS_SECRET_ACCESS_KEY",
    STORE_SESSION_VARIABLE: "AWS_SESSION_TOKEN",
}


def recipe_environment(cache: RecipeCache) -> dict[str, Object]:
    """By name; none where recipes are not shared. The revision is the label that the pod has anyway."""
    if not cache.enabled:
        return {}
    label = {"fieldRef": {"fieldPath": f"metadata.labels['{REVISION_LABEL}']"}}
    found = {REVISION_VARIABLE: label, **(_credentials(cache.object_store) if cache.object_store else {})}
    return {name: {"name": name, "valueFrom": source} for name, source in found.items()}


def _credentials(store: RecipeObjectStore) -> dict[str, Object]:
    if token := store.token_secret_ref:
        return {STORE_TOKEN_VARIABLE: _secret(token.name, token.key)}
    s3 = store.s3
    return {name: _secret(s3.credentials_secret_name, key) for name, key in _KEYS.items()} if s3 else {}


def _secret(name: str, key: str) -> Object:
    """Optional: what is missing costs recipes, not the start."""
    return {"secretKeyRef": {"name": name, "key": key, "optional": True}}
