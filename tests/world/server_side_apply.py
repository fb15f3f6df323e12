"""Server-side apply. A manager owns the fields of its last apply, and owns no other fields."""

from collections.abc import Iterator, Mapping
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]
Owned = Mapping[str, frozenset[Path]]
"""The fields that each manager owns."""

_KEYS = {"conditions": "type", "ownerReferences": "uid"}
"""Lists whose items have a key, so that several managers may write items. All other lists are replaced as a whole."""
_IDENTITY = frozenset({("apiVersion",), ("kind",), *(("metadata", name) for name in ("name", "namespace", "uid"))})


def applied(live: Object, manifest: Mapping[str, Any], owned: Owned, manager: str) -> tuple[Object, Owned]:
    """Return the object after a forced apply by `manager`, and the new owners. The arguments are not modified."""
    fields = frozenset(_fields(manifest)) - _IDENTITY
    others = frozenset[Path]().union(*(theirs for name, theirs in owned.items() if name != manager))
    fresh = live
    for path in sorted(owned.get(manager, frozenset()) - fields - others):
        fresh = _without(fresh, path)
    return _merged(fresh, manifest), {**owned, manager: fields}


def _fields(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _fields(each, (*path, name))
    elif path[-1] in _KEYS and isinstance(value, list):
        for each in value:
            yield (*path, each[_KEYS[path[-1]]])
    else:
        yield path


def _merged(live: Any, manifest: Any, name: str = "") -> Any:
    if isinstance(manifest, Mapping) and isinstance(live, dict) and manifest:
        return {**live, **{key: _merged(live.get(key), each, key) for key, each in manifest.items()}}
    if name in _KEYS and isinstance(live, list):
        ours = {each[_KEYS[name]]: each for each in manifest}
        known = [ours.pop(each[_KEYS[name]], each) for each in live]
        return [*known, *ours.values()]
    return manifest


def _without(value: Object, path: Path) -> Object:
    """Return `value` without the field at `path`. A map or list that becomes empty is removed too."""
    name, *rest = path
    if name not in value:
        return value
    left = _left(value[name], name, tuple(rest)) if rest else None
    if left in (None, {}, []):
        return {key: each for key, each in value.items() if key != name}
    return {**value, name: left}


def _left(value: Any, name: str, rest: Path) -> Any:
    if isinstance(value, list):
        return [each for each in value if each[_KEYS[name]] != rest[0]]
    return _without(value, rest) if isinstance(value, dict) else value
