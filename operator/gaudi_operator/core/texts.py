"""Long texts of a spec that stand in ConfigMaps: which ones it names, and the spec with them in their place.

A text is resolved before anything is decided. So it is an input of its revision as if it stood in the spec: another
text makes another revision, and one that is gone keeps a new spec from running but touches nothing that runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gaudi_operator.core.observed import Manifest, TextKey
from gaudi_runtime.contract.bucketing import MOST_TEXT

_PLACES = (
    (("bucketing",), "fileFrom", "file"),
    (("bucketing", "optimal"), "trafficFrom", "traffic"),
)
"""Sections of the spec, the reference in it, and the field that has the text."""


def named_texts(resource: Manifest) -> tuple[TextKey, ...]:
    """What the spec of `resource` names."""
    return tuple(dict.fromkeys(key for _, _, _, key in _named(resource)))


def with_texts(resource: Manifest, texts: Mapping[TextKey, str]) -> Manifest:
    """`resource` with the texts in place of what names them; one that is missing or too long stays as it is."""
    spec = resource.get("spec")
    for section, reference, field, key in _named(resource):
        text = texts.get(key)
        if text is not None and len(text) <= MOST_TEXT:
            spec = _replaced(spec, section, reference, {field: text})
    return {**resource, "spec": spec}


def _named(resource: Manifest) -> Iterator[tuple[tuple[str, ...], str, str, TextKey]]:
    for section, reference, field in _PLACES:
        found = _at(resource.get("spec"), (*section, reference, "configMapKeyRef"))
        name, key = _at(found, ("name",)), _at(found, ("key",))
        if isinstance(name, str) and isinstance(key, str):
            yield section, reference, field, TextKey(name, key)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _replaced(value: Any, path: tuple[str, ...], reference: str, text: dict[str, str]) -> dict[str, Any]:
    if path:
        return {**value, path[0]: _replaced(value[path[0]], path[1:], reference, text)}
    return {**{key: each for key, each in value.items() if key != reference}, **text}
