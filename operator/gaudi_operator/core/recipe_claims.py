"""When the claim of recipes exists, while the spec wishes it or a revision that runs mounts it; what its pods read."""

from collections.abc import Iterable, Sequence

from gaudi_operator.core.actions import Action
from gaudi_operator.core.children import delete, missing_writes
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.manifests.kept_revisions import kept_revisions
from gaudi_operator.core.manifests.metadata import Object
from gaudi_operator.core.manifests.recipe_claim import recipe_claim, recipe_claim_name
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.revision import Revision


def recipe_claims(inference: Inference, running: Iterable[Revision], claims: Sequence[Manifest]) -> list[Action]:
    """What is to be done about the claim, given the live `claims`.

    Its writes come after all others: a class or a quota that refuses them must not hold back pods that run.
    """
    name, cache = recipe_claim_name(inference.identity), inference.spec.recipe_cache
    live = next((each for each in claims if each["metadata"]["name"] == name), None)
    mounted = any(_mounts(revision, name) for revision in running)
    if cache.enabled or (mounted and live is None):
        return missing_writes([recipe_claim(inference.identity, cache, live)], claims)
    if mounted:
        return []
    alive = [each for each in claims if "deletionTimestamp" not in each["metadata"]]
    return [delete(each, "spec.recipeCache is switched off and no pod mounts it") for each in alive]


def recipe_readers(inference: Inference, running: Iterable[Revision], kept: Iterable[Revision]) -> list[Object]:
    """What pods that share recipes read: which revisions are `kept`. None where no `running` revision mounts it."""
    claim = recipe_claim_name(inference.identity)
    mounted = any(_mounts(revision, claim) for revision in running)
    return [kept_revisions(inference.identity, (each.name for each in kept))] if mounted else []


def _mounts(revision: Revision, claim: str) -> bool:
    volumes = revision.template.get("spec", {}).get("volumes", ())
    return any(each.get("persistentVolumeClaim", {}).get("claimName") == claim for each in volumes)
