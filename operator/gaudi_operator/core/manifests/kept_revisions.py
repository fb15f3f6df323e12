"""The ConfigMap that tells pods which revisions can still be run (docs/warmup.md, Recipe cache)."""

from collections.abc import Iterable
from posixpath import basename

from gaudi_operator.core.inference import Identity
from gaudi_operator.core.manifests.metadata import Object, child
from gaudi_operator.core.manifests.recipe_claim import recipe_claim_name
from gaudi_runtime.contract.kept_revisions import KeptRevisions
from gaudi_runtime.contract.ports import KEPT_REVISIONS_PATH


def kept_revisions(owner: Identity, names: Iterable[str]) -> Object:
    """Named as the claim of recipes; unlike the ConfigMap of a configuration it changes while pods run."""
    text = KeptRevisions(resource=owner.uid, revisions=tuple(sorted(names))).model_dump_json()
    return child("v1", "ConfigMap", recipe_claim_name(owner), owner, {"data": {basename(KEPT_REVISIONS_PATH): text}})
