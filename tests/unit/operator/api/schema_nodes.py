"""Iteration over all nodes of the generated schema."""

from collections.abc import Iterator

from gaudi_operator.api.crd import inference_crd_schema
from gaudi_operator.api.structural_schema import Schema


def nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield `schema` and all schemas nested in it, each with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from nodes(schema[key], path + mark)


ROOT = inference_crd_schema()
SPEC = dict(nodes(ROOT["properties"]["spec"], "spec"))
STATUS = dict(nodes(ROOT["properties"]["status"], "status"))
NODES = SPEC | STATUS
