"""Long texts of a spec that are stored in ConfigMaps: the references, and the spec with the texts inserted.

Texts are inserted before any decision, so they become inputs of the revision like other fields of the spec. A changed
text creates a new revision. A missing text blocks a new spec but does not affect running pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gaudi_operator.core.observed import ConfigMapTextKey, Manifest
from gaudi_runtime.contract.bucketing import MOST_TEXT

_PLACES = (
    (("bucketing",), "fileFrom", "file"),
    (("bucketing", "optimal"), "trafficFrom", "traffic"),
)
"""Tuples of (path of a section in the spec, field with the reference, field that receives the text)."""


def referenced_texts(resource: Manifest) -> tuple[ConfigMapTextKey, ...]:
    """Return the keys of the ConfigMap texts that the spec of `resource` references."""
    return tuple(dict.fromkeys(key for _, _, _, key in _text_references(resource)))


def insert_texts(resource: Manifest, texts: Mapping[ConfigMapTextKey, str]) -> Manifest:
    """Return `resource` with the texts in place of the references. A reference to a missing or too long text stays."""
    spec = resource.get("spec")
    for section_path, reference_field, text_field, key in _text_references(resource):
        text = texts.get(key)
        if text is not None and len(text) <= MOST_TEXT:
            spec = _replace_reference(spec, section_path, reference_field, {text_field: text})
    return {**resource, "spec": spec}


def _text_references(resource: Manifest) -> Iterator[tuple[tuple[str, ...], str, str, ConfigMapTextKey]]:
    for section_path, reference_field, text_field in _PLACES:
        key_ref = _get_nested(resource.get("spec"), (*section_path, reference_field, "configMapKeyRef"))
        name, key = _get_nested(key_ref, ("name",)), _get_nested(key_ref, ("key",))
        if isinstance(name, str) and isinstance(key, str):
            yield section_path, reference_field, text_field, ConfigMapTextKey(name, key)


def _get_nested(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _replace_reference(value: Any, path: tuple[str, ...], reference_field: str, text: dict[str, str]) -> dict[str, Any]:
    if path:
        return {**value, path[0]: _replace_reference(value[path[0]], path[1:], reference_field, text)}
    return {**{key: entry for key, entry in value.items() if key != reference_field}, **text}
