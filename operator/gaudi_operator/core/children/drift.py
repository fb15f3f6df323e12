"""Drift of live objects: whether a live object still has the applied fields.

Fields of other managers and defaults of the API server are ignored.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from gaudi_operator.core.quantities import parse_quantity

_LIST_KEYS = ("name", "uid", "mountPath", "containerPort", "topologyKey", "conditionType")
"""The merge keys of object lists. Entries of other managers may stand between the applied entries."""

_ATOMIC = frozenset({"selector", "matchLabels", "nodeSelector"})
"""Maps that are compared as a whole, because an additional key changes what they select."""

_QUANTITY_PARENTS = frozenset({"divisor", "limits", "requests", "sizeLimit"})

_METRICS = ("spec", "metrics")
"""The path of the targets of an autoscaler, which are quantities too."""

_BLOCKS = frozenset({"affinity", "behavior", "env", "from", "initContainers", "metrics", "volumeMounts", "volumes"})
"""The names of the fields that contain blocks of a spec."""

_MOST_NANOS = (2**63 - 1) * 10**9


def drifted_field(applied: object, live: object) -> str | None:
    """Return the path of the first field that differs, such as `spec.replicas`, or None if no field differs."""
    return _find_drift(applied, live, ())


def _find_drift(applied: object, live: object, path: tuple[str, ...]) -> str | None:
    # Most of an object is unchanged, and one comparison skips each unchanged branch.
    if applied == live:
        return None
    if isinstance(applied, Mapping):
        return _mapping_drift(applied, live, path)
    if isinstance(applied, list | tuple):
        return _sequence_drift(applied, live, path)
    if _may_be_replaced(applied, live, path) or _is_same_quantity(applied, live, path):
        return None
    return ".".join(path)


def _may_be_replaced(applied: object, live: object, path: tuple[str, ...]) -> bool:
    """Return True if the API server may drop an empty value, or replace an empty value in a block by its default.

    The operator itself writes false and 0 only where the API server keeps them.
    """
    is_block = bool(_BLOCKS.intersection(path)) and "securityContext" not in path
    return (is_block and not applied) or (live is None and applied in ("", None))


def _mapping_drift(applied: Mapping[str, Any], live: object, path: tuple[str, ...]) -> str | None:
    if not isinstance(live, Mapping):
        return None if not applied and live is None else ".".join(path)
    # Server-side apply keeps keys that other managers added. In a selector, such a key changes the meaning, so it is
    # drift.
    if path and path[-1] in _ATOMIC and live.keys() - applied.keys():
        return ".".join(path)
    drifts = (_find_drift(value, live.get(key), (*path, key)) for key, value in applied.items())
    return next((drift for drift in drifts if drift is not None), None)


def _sequence_drift(applied: Sequence[Any], live: object, path: tuple[str, ...]) -> str | None:
    if not isinstance(live, list | tuple):
        return None if not applied and live is None else ".".join(path)
    key = _merge_key(applied)
    if key is not None:
        # The key of an applied entry may have any type, until the API server refuses the entry.
        live_by_key = {str(entry.get(key)): entry for entry in live if isinstance(entry, Mapping)}
        entries = [(entry, live_by_key.get(str(entry[key])), str(entry[key])) for entry in applied]
    elif len(applied) != len(live):
        return ".".join(path)
    elif not any(isinstance(entry, Mapping) for entry in applied):
        return None if list(applied) == list(live) else ".".join(path)
    else:
        entries = [
            (applied_entry, live_entry, str(index))
            for index, (applied_entry, live_entry) in enumerate(zip(applied, live, strict=True))
        ]
    drifts = (_find_drift(applied_entry, live_entry, (*path, label)) for applied_entry, live_entry, label in entries)
    return next((drift for drift in drifts if drift is not None), None)


def _merge_key(entries: Sequence[Any]) -> str | None:
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    return next((key for key in _LIST_KEYS if _is_unique_key(key, entries)), None)


def _is_unique_key(key: str, entries: Sequence[Any]) -> bool:
    """Return True if the value of `key` is different in all entries. One volume may be mounted at several paths."""
    return all(key in entry for entry in entries) and len({str(entry[key]) for entry in entries}) == len(entries)


def _is_same_quantity(applied: object, live: object, path: tuple[str, ...]) -> bool:
    """Return True if two quantities are equal. The API server writes 1024Mi as 1Gi, and at most an int64.

    It also writes a number as a text, and rounds the number up to nanos.
    """
    is_quantity = path[:2] == _METRICS or _QUANTITY_PARENTS.intersection(path)
    if not is_quantity or not isinstance(applied, str | int) or not isinstance(live, str):
        return False
    try:
        return _round_as_server(str(applied)) == _round_as_server(live)
    except ValueError:
        return False


def _round_as_server(quantity: str) -> int:
    """Return a quantity in nanos. Raises ValueError if the text is not a quantity."""
    return min(ceil(parse_quantity(quantity) * 10**9), _MOST_NANOS)
