"""From the desired children and the observed ones to the writes that are missing. At rest there are none.

A live object has drifted where it no longer has what we applied; fields of others, and the server's defaults, do not
matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gaudi_operator.core.actions import Action, Apply, Delete
from gaudi_operator.core.children.manifests.metadata import Object
from gaudi_operator.core.names import APPLIED_HASH_ANNOTATION
from gaudi_operator.core.notation import parse_quantity
from gaudi_operator.core.observed import Manifest


def missing_writes(desired: Iterable[Object], observed: Iterable[Manifest]) -> list[Action]:
    """An Apply for each desired child that is absent, was changed by others, or is to be changed by us.

    `desired` are complete manifests, in the order of their writes; `observed` are live objects of any kind.
    """
    live = {(each["kind"], each["metadata"]["name"]): each for each in observed}
    writes = [_write(child, live.get((child["kind"], child["metadata"]["name"]))) for child in desired]
    return [write for write in writes if write is not None]


def delete(live: Manifest, reason: str) -> Delete:
    """Delete one observed child."""
    metadata = live["metadata"]
    return Delete(live["apiVersion"], live["kind"], metadata["name"], metadata["uid"], reason)


def _write(child: Object, live: Manifest | None) -> Action | None:
    if live is None:
        return Apply(child, "it does not exist")
    # An apply would succeed and be lost with the object; the next pass finds it gone and makes it again.
    if "deletionTimestamp" in live["metadata"]:
        return None
    drift = has_drifted(child, live)
    if drift is None:
        return None
    if child.get("immutable") and has_drifted(child["data"], live.get("data")):
        return delete(live, "its content is not what its name says, and it is immutable: it is made anew")
    if _hash(child) != _hash(live):
        return Apply(child, "what is desired has changed")
    return Apply(child, f"{drift} was changed by others")


def _hash(manifest: Mapping[str, object]) -> object:
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return (annotations or {}).get(APPLIED_HASH_ANNOTATION)


_LIST_KEYS = ("name", "uid", "mountPath", "containerPort", "topologyKey", "conditionType")
"""Keys by which the API server merges lists of objects: entries of others may stand between ours."""

_ATOMIC = frozenset({"selector", "matchLabels", "nodeSelector"})
"""Maps that mean something as a whole: one more key selects other pods, or none."""

_QUANTITY_PARENTS = frozenset({"limits", "requests", "sizeLimit", "averageValue"})


def has_drifted(applied: object, live: object) -> str | None:
    """Path of the first field whose live value is not ours, such as `spec.replicas`; None when all are."""
    return _drift(applied, live, ())


def _drift(applied: object, live: object, path: tuple[str, ...]) -> str | None:
    if isinstance(applied, Mapping):
        return _mapping(applied, live, path)
    if isinstance(applied, list | tuple):
        return _sequence(applied, live, path)
    # The API server drops empty strings of optional fields.
    if applied == live or (applied == "" and live is None) or _same_amount(applied, live, path):
        return None
    return ".".join(path)


def _mapping(applied: Mapping[str, Any], live: object, path: tuple[str, ...]) -> str | None:
    if not isinstance(live, Mapping):
        return None if not applied and live is None else ".".join(path)
    # Server-side apply leaves keys of others alone, so a stranger's key in a selector is drift that we must see.
    if path and path[-1] in _ATOMIC and live.keys() - applied.keys():
        return ".".join(path)
    drifts = (_drift(value, live.get(key), (*path, key)) for key, value in applied.items())
    return next((drift for drift in drifts if drift is not None), None)


def _sequence(applied: Sequence[Any], live: object, path: tuple[str, ...]) -> str | None:
    if not isinstance(live, list | tuple):
        return None if not applied and live is None else ".".join(path)
    key = _list_key(applied)
    if key is not None:
        found = {entry.get(key): entry for entry in live if isinstance(entry, Mapping)}
        pairs = [(entry, found.get(entry[key]), str(entry[key])) for entry in applied]
    elif len(applied) != len(live):
        return ".".join(path)
    elif not any(isinstance(entry, Mapping) for entry in applied):
        return None if list(applied) == list(live) else ".".join(path)
    else:
        pairs = [(mine, theirs, str(index)) for index, (mine, theirs) in enumerate(zip(applied, live, strict=True))]
    drifts = (_drift(mine, theirs, (*path, label)) for mine, theirs, label in pairs)
    return next((drift for drift in drifts if drift is not None), None)


def _list_key(entries: Sequence[Any]) -> str | None:
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    return next((key for key in _LIST_KEYS if all(key in entry for entry in entries)), None)


def _same_amount(applied: object, live: object, path: tuple[str, ...]) -> bool:
    """The server writes 1024Mi as 1Gi."""
    if not _QUANTITY_PARENTS.intersection(path) or not isinstance(applied, str) or not isinstance(live, str):
        return False
    try:
        return parse_quantity(applied) == parse_quantity(live)
    except ValueError:
        return False
