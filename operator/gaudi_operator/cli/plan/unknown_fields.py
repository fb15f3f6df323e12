"""Unknown fields of a GaudiInference, with the field that the user probably meant.

The API server refuses unknown fields, but the Pydantic models ignore them. A block may have any field.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from gaudi_operator.api.schema_keywords import PRESERVE
from gaudi_operator.api.structural_schema import Schema
from gaudi_runtime.contract.text import safe_excerpt

LEAST_SIMILARITY = 0.8
"""The ratio of equal characters (0 to 1) from which the name of a field is similar."""
_ALIASES = {
    "args": "spec.engine.extraArgs",
    "cards": "spec.parallelism.tensor",
    "count": "spec.parallelism.tensor",
    "gpuMemoryUtilization": "spec.engine.deviceMemoryUtilizationPercent",
    "hfToken": "spec.model.tokenSecretRef",
    "maxTokens": "spec.model.maxModelLen",
    "modelName": "spec.model.servedNames",
    "s3": "spec.model.source",
    "storageUri": "spec.model.source",
    "tensorParallelSize": "spec.parallelism.tensor",
}
"""Names of vLLM and of other operators, with the field of a GaudiInference that has the same purpose."""


def describe_unknown_fields(schema: Schema, spec: object) -> Iterator[str]:
    """Yield a sentence without a full stop for each unknown field of a spec. `schema` is the schema of the spec."""
    for parent_path, name, siblings in _unknown_fields(schema, spec, "spec"):
        path = _find_meant_field(schema, name, siblings, parent_path)
        advice = f"did you mean {path}?" if path else "`kubectl explain gi.spec --recursive` lists the fields"
        yield f"{parent_path}.{name} is not a field of a GaudiInference; {advice}"


def _unknown_fields(node: Schema, value: object, path: str) -> Iterator[tuple[str, str, Schema]]:
    """Yield (path of the parent, name, known fields of the parent) of each unknown field."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown_fields(node.get("items", {}), item, f"{path}[{number}]")
    elif isinstance(value, Mapping):
        fields: Schema = node.get("properties", {})
        for name, child in value.items():
            if name in fields:
                yield from _unknown_fields(fields[name], child, f"{path}.{name}")
            elif fields and PRESERVE not in node:
                yield path, safe_excerpt(str(name)), fields


def _find_meant_field(schema: Schema, name: str, siblings: Schema, parent_path: str) -> str | None:
    """Return the path of the field that `name` probably means; None if no field has a similar name.

    An alias comes first. Among fields with equally similar names, fields next to the unknown field come first, then the
    fields that are nearest to the root.
    """
    if name in _ALIASES:
        return _ALIASES[name]

    def similarity(path: str) -> float:
        return SequenceMatcher(None, name.lower(), path.rpartition(".")[2].lower()).ratio()

    nearest_first = sorted(_field_paths(schema, "spec"), key=lambda path: path.count("."))
    path = max((*(f"{parent_path}.{sibling}" for sibling in siblings), *nearest_first), key=similarity)
    return path if similarity(path) >= LEAST_SIMILARITY else None


def _field_paths(node: Schema, path: str) -> Iterator[str]:
    """Yield the paths of all fields below a node. Fields of list items are omitted, because several may exist."""
    for name, field in node.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _field_paths(field, f"{path}.{name}")
