"""pydantic's JSON schema -> the structural schema that a CustomResourceDefinition needs.

Each rewrite changes one thing of one node and knows nothing of the others; `structural` walks the schema from
the leaves up and applies them in order. What structural schemas forbid is listed in the Kubernetes
documentation, "Extend the Kubernetes API with CustomResourceDefinitions", Specifying a structural schema.
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from gaudi_operator.api.base import MEANT_WHEN_LEFT_OUT

Schema = dict[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
_INT32_MAX = 2**31 - 1
_SAID_BY_ABSENCE: tuple[Any, ...] = (None, [], {})
_BOUND = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}


class SchemaError(ValueError):
    """A model says something that no structural schema can say."""


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of `model` in wire names, self-contained and with every value bounded.

    Raises SchemaError for a string, list or map without a bound, and for what has no structural form.
    """
    source = model.model_json_schema(by_alias=True)
    return _walked(_inlined(source, source.get("$defs", {})))


def without_defaults(schema: Schema) -> Schema:
    """`schema` without any default: in a status, what nobody has reported must stay absent."""
    bare = {key: value for key, value in schema.items() if key != "default"}
    return _with_children(bare, without_defaults)


def _inlined(node: Schema, definitions: Schema) -> Schema:
    """Put definitions where they are referred to; what stands beside the reference wins."""
    kept = {key: value for key, value in node.items() if key not in ("$ref", "$defs")}
    if reference := node.get("$ref"):
        kept = definitions[reference.removeprefix("#/$defs/")] | kept
    return _with_children(kept, lambda child: _inlined(child, definitions))


def _walked(node: Schema) -> Schema:
    node = _with_children(node, _walked)
    for rewrite in REWRITES:
        node = rewrite(node)
    return node


def _with_children(node: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """`node` with every schema directly inside it changed."""
    result = dict(node)
    for key in ("properties", "patternProperties"):
        if key in node:
            result[key] = {name: change(child) for name, child in node[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = change(node[key])
    for key in ("anyOf", "prefixItems"):
        if key in node:
            result[key] = [change(child) for child in node[key]]
    return result


def drop_title(node: Schema) -> Schema:
    """pydantic derives titles from names; they say nothing new."""
    return _without(node, "title")


def plain_optional(node: Schema) -> Schema:
    """`X | None` becomes plain X: in Kubernetes a field that is not set is absent, never null."""
    options = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
    if "anyOf" not in node or len(options) == len(node["anyOf"]):
        return node
    rest = _without(node, "anyOf")
    return options[0] | rest if len(options) == 1 else rest | {"anyOf": options}


def union_to_int_or_string(node: Schema) -> Schema:
    """`int | str` is the one union that structural schemas know; the bounds of both sides apply."""
    options = {each.get("type"): each for each in node.get("anyOf", ())}
    if not options or INT_OR_STRING in node:
        return node
    if set(options) != {"integer", "string"}:
        raise SchemaError(f"{sorted(map(str, options))} cannot be a union: use one type, or int and string")
    bounds = _without(options["integer"] | options["string"], "type", "format")
    return _without(node, "anyOf") | bounds | {INT_OR_STRING: True}


def marked_int_or_string(node: Schema) -> Schema:
    """Int-or-string has no type of its own, but the alternatives that clients look for."""
    if INT_OR_STRING not in node:
        return node
    return _without(node, "type") | {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def const_to_enum(node: Schema) -> Schema:
    """A single allowed value is an enum of one."""
    return _without(node, "const") | {"enum": [node["const"]]} if "const" in node else node


def exclusive_bounds(node: Schema) -> Schema:
    """OpenAPI 3.0 says whether a bound is exclusive, JSON schema gives it in place of the bound."""
    result = dict(node)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        value = node.get(exclusive)
        if value is not None and not isinstance(value, bool):
            result |= {bound: value, exclusive: True}
    return result


def tuple_to_list(node: Schema) -> Schema:
    """A tuple of equal members is a list of fixed length; minItems and maxItems stand there already."""
    if "prefixItems" not in node:
        return node
    first, *others = node["prefixItems"]
    if any(each != first for each in others):
        raise SchemaError("a tuple with members of several types has no structural form: use an object")
    return _without(node, "prefixItems") | {"items": first}


def map_values(node: Schema) -> Schema:
    """Maps constrain their values only: the keys' pattern is for CEL, and no object is closed by the schema."""
    patterns = node.get("patternProperties", {})
    values = next(iter(patterns.values()), node.get("additionalProperties"))
    rest = _without(node, "patternProperties", "propertyNames", "additionalProperties")
    return rest | {"additionalProperties": values} if isinstance(values, dict) else rest


def list_type(node: Schema) -> Schema:
    """A list that says nothing else is replaced as a whole by whoever applies it."""
    return {LIST_TYPE: "atomic"} | node if node.get("type") == "array" else node


def number_format(node: Schema) -> Schema:
    """Kubernetes names the width of a number: int32 where the bounds allow it."""
    if node.get("type") == "number":
        return {"format": "double"} | node
    if node.get("type") != "integer":
        return node
    return {"format": "int32" if node.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"} | node


def object_default(node: Schema) -> Schema:
    """An object's default is that of all fields in it: the API server checks CEL rules against it as it stands.

    No default at all where it would be null, an empty list or an empty map: an absent field says the same and
    keeps stored objects short. Fields have their defaults as well, so a part that is given is completed.
    """
    if "default" not in node:
        return node
    fields = node.get("properties", {})
    unsaid = {name for name, field in fields.items() if MEANT_WHEN_LEFT_OUT in field}
    given = _without_fields(_significant(node["default"]), unsaid)
    own = {name: field["default"] for name, field in node.get("properties", {}).items() if "default" in field}
    if given in _SAID_BY_ABSENCE:
        return _without(node, "default")
    if "properties" not in node:
        return node
    if given != own:
        raise SchemaError(f"an object's default must be that of its fields {own}, not {given}")
    return node | {"default": own}


def unmarked(node: Schema) -> Schema:
    """What a field means when it is left out was for the defaults of the objects around it."""
    if "properties" not in node:
        return node
    return node | {
        "properties": {name: _without(field, MEANT_WHEN_LEFT_OUT) for name, field in node["properties"].items()}
    }


def bounded(node: Schema) -> Schema:
    """Refuse what has no upper bound: the API server must be able to bound the cost of every CEL rule."""
    kind = "string" if INT_OR_STRING in node else node.get("type", "")
    fixed = "enum" in node or "properties" in node
    if kind in _BOUND and not fixed and _BOUND[kind] not in node:
        raise SchemaError(f"{_BOUND[kind]} is missing on this {kind}, give it one: {node}")
    return node


REWRITES: tuple[Callable[[Schema], Schema], ...] = (
    drop_title,
    plain_optional,
    union_to_int_or_string,
    marked_int_or_string,
    const_to_enum,
    exclusive_bounds,
    tuple_to_list,
    map_values,
    list_type,
    number_format,
    object_default,
    unmarked,
    bounded,
)


def _significant(value: Any) -> Any:
    """A default without the fields that say nothing."""
    if not isinstance(value, dict):
        return value
    inner = {key: _significant(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each not in _SAID_BY_ABSENCE}


def _without_fields(value: Any, names: set[str]) -> Any:
    return {key: each for key, each in value.items() if key not in names} if isinstance(value, dict) else value


def _without(node: Schema, *keys: str) -> Schema:
    return {key: value for key, value in node.items() if key not in keys}
