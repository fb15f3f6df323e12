"""Convert a JSON schema of pydantic to the structural schema of a CustomResourceDefinition.

`structural_schema` walks the schema from the leaves up and applies each function of REWRITES to each node. The
Kubernetes documentation lists what a structural schema must not contain ("Extend the Kubernetes API with
CustomResourceDefinitions", Specifying a structural schema).
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from gaudi_operator.api.schema_keywords import MEANT_WHEN_LEFT_OUT, PRESERVE

Schema = dict[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
_INT32_MAX = 2**31 - 1
MOST_VALUE_LENGTH = 64
"""The maximum length of a text of the status that has one of a list of values, in characters."""
_SAME_AS_ABSENT: tuple[Any, ...] = (None, [], {})
_BOUND = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}


class StructuralSchemaError(ValueError):
    """The error for a model that has no structural schema."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of `model`, with the names of the API and without references.

    Raises StructuralSchemaError for a string, list or map without a bound, and for a type without a structural form.
    """
    json_schema = model.model_json_schema(by_alias=True)
    return _rewrite_tree(_inline_references(json_schema, json_schema.get("$defs", {})))


def structural_status_schema(schema: Schema) -> Schema:
    """Return the structural schema of a status, without defaults and lists of values.

    A status field is absent until it is reported. With the definition of an older release, the API server would refuse
    a status with a value that this release added.
    """
    node = {key: value for key, value in schema.items() if key not in ("default", "enum")}
    text = {"maxLength": MOST_VALUE_LENGTH} if "enum" in schema else {}
    return map_child_schemas({**node, **text}, structural_status_schema)


def _inline_references(node: Schema, definitions: Schema) -> Schema:
    """Replace references by their definitions. Keywords next to a reference take precedence."""
    result = {key: value for key, value in node.items() if key not in ("$ref", "$defs")}
    if reference := node.get("$ref"):
        result = definitions[reference.removeprefix("#/$defs/")] | result
    return map_child_schemas(result, lambda child: _inline_references(child, definitions))


def _rewrite_tree(node: Schema) -> Schema:
    node = map_child_schemas(node, _rewrite_tree)
    for rewrite in REWRITES:
        node = rewrite(node)
    return node


def map_child_schemas(node: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return a schema `node` with `change` applied to each schema directly inside it."""
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


def _drop_title(node: Schema) -> Schema:
    """Remove titles, which pydantic derives from names."""
    return _drop_keys(node, "title")


def _unwrap_optional(node: Schema) -> Schema:
    """Replace `X | None` by X: in Kubernetes a field that is not set is absent, not null."""
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    if "anyOf" not in node or len(options) == len(node["anyOf"]):
        return node
    keywords = _drop_keys(node, "anyOf")
    return options[0] | keywords if len(options) == 1 else keywords | {"anyOf": options}


def _union_to_int_or_string(node: Schema) -> Schema:
    """Replace `int | str` by int-or-string, the only union of structural schemas, with the bounds of both."""
    options = {option.get("type"): option for option in node.get("anyOf", ())}
    if not options or INT_OR_STRING in node:
        return node
    if set(options) != {"integer", "string"}:
        raise StructuralSchemaError(f"{sorted(map(str, options))} cannot be a union: use one type, or int and string")
    bounds = _drop_keys(options["integer"] | options["string"], "type", "format")
    return _drop_keys(node, "anyOf") | bounds | {INT_OR_STRING: True}


def _expand_int_or_string(node: Schema) -> Schema:
    """Replace the type of int-or-string by the alternatives that clients expect."""
    if INT_OR_STRING not in node:
        return node
    return _drop_keys(node, "type") | {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def _const_to_enum(node: Schema) -> Schema:
    """Replace a constant in the schema by an enumeration with one value."""
    return _drop_keys(node, "const") | {"enum": [node["const"]]} if "const" in node else node


def _convert_exclusive_bounds(node: Schema) -> Schema:
    """Replace an exclusive bound by the bound and a boolean, as in OpenAPI 3.0."""
    result = dict(node)
    for exclusive_key, bound_key in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        value = node.get(exclusive_key)
        if value is not None and not isinstance(value, bool):
            result |= {bound_key: value, exclusive_key: True}
    return result


def _tuple_to_list(node: Schema) -> Schema:
    """Replace a tuple of equal members by a list. The schema already contains minItems and maxItems."""
    if "prefixItems" not in node:
        return node
    first_member, *other_members = node["prefixItems"]
    if any(member != first_member for member in other_members):
        raise StructuralSchemaError("a tuple with members of several types has no structural form: use an object")
    return _drop_keys(node, "prefixItems") | {"items": first_member}


def _keep_value_constraint(node: Schema) -> Schema:
    """Keep only the constraint of the values of a map. CEL rules check the keys, and no object is closed."""
    pattern_schemas = node.get("patternProperties", {})
    value_schema = next(iter(pattern_schemas.values()), node.get("additionalProperties"))
    keywords = _drop_keys(node, "patternProperties", "propertyNames", "additionalProperties")
    return keywords | {"additionalProperties": value_schema} if isinstance(value_schema, dict) else keywords


def _set_list_type(node: Schema) -> Schema:
    """Make a list atomic if the list has no other list type. An apply then replaces the whole list."""
    return {LIST_TYPE: "atomic"} | node if node.get("type") == "array" else node


def _set_number_format(node: Schema) -> Schema:
    """Set the format of a number in the structural schema: int32 if the bounds allow it, otherwise int64 or double."""
    if node.get("type") == "number":
        return {"format": "double"} | node
    if node.get("type") != "integer":
        return node
    return {"format": "int32" if node.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"} | node


def _set_object_default(node: Schema) -> Schema:
    """Set the default of an object to the defaults of its fields, which the API server checks CEL rules against.

    A default that is null, an empty list or an empty map is removed: an absent field means the same and keeps stored
    objects short. The fields keep their defaults, so that a partial object is completed.
    """
    if "default" not in node:
        return node
    fields = node.get("properties", {})
    operator_field_names = {name for name, field in fields.items() if MEANT_WHEN_LEFT_OUT in field}
    default = _drop_fields(_drop_empty_fields(node["default"]), operator_field_names)
    field_defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    if default in _SAME_AS_ABSENT:
        return _drop_keys(node, "default")
    if "properties" not in node:
        return node
    if default != field_defaults:
        raise StructuralSchemaError(f"an object's default must be that of its fields {field_defaults}, not {default}")
    return node | {"default": field_defaults}


def _drop_operator_defaults(node: Schema) -> Schema:
    """Remove the defaults that the operator fills in from the schema, after _set_object_default() has read them."""
    if "properties" not in node:
        return node
    return node | {
        "properties": {name: _drop_keys(field, MEANT_WHEN_LEFT_OUT) for name, field in node["properties"].items()}
    }


def _require_bound(node: Schema) -> Schema:
    """Raise StructuralSchemaError without an upper bound: the API server estimates the cost of CEL rules from bounds.

    Blocks have no bound here, because CEL rules cannot read their fields. The operator limits their size (resource.py).
    """
    kind = "string" if INT_OR_STRING in node else node.get("type", "")
    is_bounded = "enum" in node or "properties" in node or PRESERVE in node
    if kind in _BOUND and not is_bounded and _BOUND[kind] not in node:
        raise StructuralSchemaError(f"{_BOUND[kind]} is missing on this {kind}, give it one: {node}")
    return node


REWRITES: tuple[Callable[[Schema], Schema], ...] = (
    _drop_title,
    _unwrap_optional,
    _union_to_int_or_string,
    _expand_int_or_string,
    _const_to_enum,
    _convert_exclusive_bounds,
    _tuple_to_list,
    _keep_value_constraint,
    _set_list_type,
    _set_number_format,
    _set_object_default,
    _drop_operator_defaults,
    _require_bound,
)


def _drop_empty_fields(value: Any) -> Any:
    """Return a default without empty fields."""
    if not isinstance(value, dict):
        return value
    fields = {key: _drop_empty_fields(field) for key, field in value.items()}
    return {key: field for key, field in fields.items() if field not in _SAME_AS_ABSENT}


def _drop_fields(value: Any, names: set[str]) -> Any:
    return {key: field for key, field in value.items() if key not in names} if isinstance(value, dict) else value


def _drop_keys(node: Schema, *keys: str) -> Schema:
    return {key: value for key, value in node.items() if key not in keys}
