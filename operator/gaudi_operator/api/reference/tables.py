"""Tables of fields in Markdown, from a structural schema."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gaudi_operator.api.reference.kubernetes_types import KubernetesType, find_kubernetes_type
from gaudi_operator.api.schema_keywords import PRESERVE
from gaudi_operator.api.structural_schema import INT_OR_STRING, Schema

_LOWER = {"integer": "minimum", "number": "minimum", "string": "minLength", "array": "minItems"}
_UPPER = {
    "integer": "maximum",
    "number": "maximum",
    "string": "maxLength",
    "array": "maxItems",
    "object": "maxProperties",
}
_UNIT = {"string": "characters", "array": "entries", "object": "entries"}
WRITER_KEYWORDS = frozenset({"required", *_LOWER.values(), *_UPPER.values()})
"""The keywords of a schema that restrict what may be written."""


@dataclass(frozen=True)
class FieldTableRow:
    """One field. `path` is relative to its section."""

    path: str
    schema: Schema
    required: bool

    @property
    def type(self) -> KubernetesType | None:
        """The Kubernetes type of the field or of the entries of its list."""
        return find_kubernetes_type(_entry_schema(self.schema))


def _entry_schema(schema: Schema) -> Schema:
    """Return the schema of the entries of a list, or the schema itself."""
    return schema["items"] if schema.get("type") == "array" else schema


def direct_table_rows(schema: Schema) -> Iterator[FieldTableRow]:
    """Yield the fields directly inside `schema`."""
    for name, child in schema["properties"].items():
        yield FieldTableRow(name, child, name in schema.get("required", []))


def nested_table_rows(schema: Schema, prefix: str = "", *, expand_types: bool = True) -> Iterator[FieldTableRow]:
    """Yield every field below `schema`, parents before children. In a path, `[]` means an entry of a list.

    Without `expand_types`, the members of Kubernetes types are omitted.
    """
    entry = _entry_schema(schema)
    prefix += "[]." if entry is not schema else "." if prefix else ""
    for name, child in entry.get("properties", {}).items():
        row = FieldTableRow(prefix + name, child, name in entry.get("required", []))
        yield row
        if expand_types or not row.type:
            yield from nested_table_rows(child, prefix + name, expand_types=expand_types)


def field_table_description(row: FieldTableRow) -> str:
    """Return the description of a field."""
    return str(row.schema.get("description", ""))


def field_table(rows: Iterable[FieldTableRow]) -> str:
    """Return a table of fields. If several fields have the same members, only the members of the first have rows."""
    lines = ["| Field | Type | Meaning |", "|---|---|---|"]
    first_paths: dict[str, str] = {}
    omitted: tuple[str, ...] = ()
    for row in rows:
        if row.path.startswith(omitted):
            continue
        # Escape bars, because a bar ends a table cell.
        meaning = field_table_description(row).replace("|", "\\|")
        members = repr(row.schema.get("properties", row.path))
        if (first_path := first_paths.setdefault(members, row.path)) != row.path:
            omitted += (f"{row.path}.",)
            meaning += f" Same fields as `{first_path}`."
        lines.append(f"| `{row.path}` | {_type_and_bounds(row.schema)}{_default(row)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _type_and_bounds(schema: Schema) -> str:
    """Return the type and the bounds as text."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if INT_OR_STRING in schema:
        return "integer or string" + (" like `25%`" if "%" in schema.get("pattern", "") else " (quantity)")
    kind = schema["type"]
    return _type_name(schema, kind) + _format_bounds(schema, kind)


def _type_name(schema: Schema, kind: str) -> str:
    if kind == "array":
        return f"list of {_plural_type_name(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_plural_type_name(schema['additionalProperties'])}"
    kubernetes_type = find_kubernetes_type(schema)
    if kubernetes_type:
        return _type_link(kubernetes_type)
    return "block" if PRESERVE in schema else str(kind)


def _plural_type_name(schema: Schema) -> str:
    kubernetes_type = find_kubernetes_type(schema)
    if kubernetes_type:
        return _type_link(kubernetes_type)
    if PRESERVE in schema:
        return "blocks"
    return "integers or strings" if INT_OR_STRING in schema else f"{schema['type']}s"


def _type_link(kubernetes_type: KubernetesType) -> str:
    return f"[{kubernetes_type.name}]({kubernetes_type.reference_url})"


def _format_bounds(schema: Schema, kind: str) -> str:
    lower, upper = schema.get(_LOWER.get(kind, "")), schema.get(_UPPER.get(kind, ""))
    if upper is None:
        return "" if lower is None else f", at least {lower}"
    unit = f" {_UNIT[kind]}" if kind in _UNIT else ""
    return f", {lower} to {upper}{unit}" if lower is not None else f", at most {upper}{unit}"


def _default(row: FieldTableRow) -> str:
    if row.required:
        return ", **required**"
    default: Any = row.schema.get("default")
    if default is None or "properties" in row.schema:
        return ""
    return f", default `{str(default).lower() if isinstance(default, bool) else default}`"
