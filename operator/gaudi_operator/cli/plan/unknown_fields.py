"""Unknown fields of a GaudiInference, with the field that the user probably meant.

The API server refuses unknown fields, but the Pydantic models ignore them.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from gaudi_operator.api.schema import Schema

_ALIASES = {
    "args": "spec.engine.extraArgs",
    "cards": "spec.parallelism.tensor",
    "count": "spec.parallelism.tensor",
    "gpuMemoryUtilization": "spec.engine.deviceMemoryUtilizationPercent",
    "hfToken": "spec.model.source.huggingFace.tokenSecretRef",
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
            elif fields:
                yield path, str(name), fields


def _find_meant_field(schema: Schema, name: str, siblings: Schema, parent_path: str) -> str | None:
    """Return the path of the field that `name` probably means; None if no field is similar.

    An alias comes first, then the field with the same name that is nearest to the root, then a similar name next to the
    unknown field.
    """
    same_name_paths = [path for path in _field_paths(schema, "spec") if path.rpartition(".")[2] == name]
    similar_paths = [f"{parent_path}.{similar_name}" for similar_name in get_close_matches(name, siblings, n=1)]
    nearest_first = sorted(same_name_paths, key=lambda path: path.count("."))
    return next(iter([_ALIASES[name]] if name in _ALIASES else [*nearest_first, *similar_paths]), None)


def _field_paths(node: Schema, path: str) -> Iterator[str]:
    """Yield the paths of all fields below a node. Fields of list items are omitted, because several may exist."""
    for name, field in node.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _field_paths(field, f"{path}.{name}")
