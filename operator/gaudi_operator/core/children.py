"""From the wished children and the observed ones to the writes that are missing. At rest there are none."""

from collections.abc import Iterable, Mapping

from gaudi_operator.core.actions import Action, Apply, Delete
from gaudi_operator.core.drift import has_drifted
from gaudi_operator.core.manifests.metadata import Object
from gaudi_operator.core.names import APPLIED_HASH_ANNOTATION
from gaudi_operator.core.observed import Manifest


def missing_writes(wished: Iterable[Object], observed: Iterable[Manifest]) -> list[Action]:
    """An Apply for each wished child that is absent, was changed by others, or is to be changed by us.

    `wished` are complete manifests, in the order of their writes; `observed` are live objects of any kind.
    """
    live = {(each["kind"], each["metadata"]["name"]): each for each in observed}
    writes = [_write(child, live.get((child["kind"], child["metadata"]["name"]))) for child in wished]
    return [write for write in writes if write is not None]


def delete(live: Manifest, reason: str) -> Delete:
    """Delete one observed child."""
    metadata = live["metadata"]
    return Delete(live["apiVersion"], live["kind"], metadata["name"], metadata["uid"], reason)


def _write(child: Object, live: Manifest | None) -> Action | None:
    if live is None:
        return Apply(child, "it does not exist")
    if "deletionTimestamp" in live["metadata"]:
        return None
    drift = has_drifted(child, live)
    if drift is None:
        return None
    if child.get("immutable") and has_drifted(child["data"], live.get("data")):
        return delete(live, "its content is not what its name says, and it is immutable: it is made anew")
    if _hash(child) != _hash(live):
        return Apply(child, "what is wished has changed")
    return Apply(child, f"{drift} was changed by others")


def _hash(manifest: Mapping[str, object]) -> object:
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return (annotations or {}).get(APPLIED_HASH_ANNOTATION)
