"""Tables of fields and lists of rules in Markdown, from a structural schema."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gaudi_operator.api.reference.kubernetes_types import KubernetesType, kubernetes_type
from gaudi_operator.api.schema import INT_OR_STRING, Schema, named_field

RULES = "x-kubernetes-validations"
_LOWER = {"integer": "minimum", "number": "minimum", "string": "minLength", "array": "minItems"}
_UPPER = {
    "integer": "maximum",
    "number": "maximum",
    "string": "maxLength",
    "array": "maxItems",
    "object": "maxProperties",
}
_UNIT = {"string": "characters", "array": "entries", "object": "entries"}


@dataclass(frozen=True)
class Row:
    """One field. `path` is relative to its section."""

    path: str
    schema: Schema
    required: bool

    @property
    def type(self) -> KubernetesType | None:
        """The Kubernetes type of the field or of the entries of its list."""
        return kubernetes_type(element(self.schema))


def element(schema: Schema) -> Schema:
    """Return the schema of the entries of a list, or the schema itself."""
    return schema["items"] if schema.get("type") == "array" else schema


def fields(schema: Schema) -> Iterator[Row]:
    """Yield the fields directly inside `schema`."""
    for name, child in schema["properties"].items():
        yield Row(name, child, name in schema.get("required", []))


def rows(schema: Schema, prefix: str = "", *, whole: bool = True) -> Iterator[Row]:
    """Yield every field below `schema`, parents before children. In a path, `[]` means an entry of a list.

    Without `whole`, the members of Kubernetes types are omitted.
    """
    inner = element(schema)
    prefix += "[]." if inner is not schema else "." if prefix else ""
    for name, child in inner.get("properties", {}).items():
        row = Row(prefix + name, child, name in inner.get("required", []))
        yield row
        if whole or not row.type:
            yield from rows(child, prefix + name, whole=whole)


def messages(schema: Schema, path: str, *, within: bool = False) -> Iterator[str]:
    """Yield the message of each CEL rule with the path of its field, outermost first.

    The rules of a Kubernetes type are omitted, unless `schema` is the type itself (`within`).
    """
    known = None if within else kubernetes_type(schema)
    of_type = known.schema.get(RULES, ()) if known else ()
    for rule in schema.get(RULES, ()):
        if rule not in of_type:
            sentence = rule["message"]
            yield sentence if named_field(sentence) else f"`{path}` {sentence}"
    if known:
        return
    for name, child in schema.get("properties", {}).items():
        yield from messages(child, f"{path}.{name}")
    if "items" in schema:
        yield from messages(schema["items"], f"{path}[]")


def listed(sentences: Iterable[str]) -> Iterator[str]:
    """Yield a list of the rules, or nothing if there are no rules."""
    if lines := [f"- {sentence}." for sentence in sentences]:
        yield "Rules:\n\n" + "\n".join(lines) + "\n"


def described(row: Row) -> str:
    """Return the description of a field."""
    return str(row.schema.get("description", ""))


def table(shown: Iterable[Row], types_page: str, meaning: Callable[[Row], str] = described) -> str:
    """Return a table of fields. `types_page` is the relative address of the page of the Kubernetes types."""
    lines = [
        f"| `{row.path}` | {_kind(row.schema)} | {_default(row)} | {_cell(row, types_page, meaning)} |" for row in shown
    ]
    return "\n".join(["| Field | Type | Default | Meaning |", "|---|---|---|---|", *lines]) + "\n"


def _cell(row: Row, types_page: str, meaning: Callable[[Row], str]) -> str:
    # Escape bars, because a bar ends a table cell.
    text = meaning(row).replace("|", "\\|")
    members = f"[Members]({types_page}#{row.type.name.lower()})." if row.type else ""
    return f"{text} {members}".strip()


def _kind(schema: Schema) -> str:
    """Return the type and the bounds as text."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if INT_OR_STRING in schema:
        return "integer or string" + (" like `25%`" if "%" in schema.get("pattern", "") else " (quantity)")
    kind = schema["type"]
    return _type_name(schema, kind) + _bounds(schema, kind)


def _type_name(schema: Schema, kind: str) -> str:
    if kind == "array":
        return f"list of {_plural(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_plural(schema['additionalProperties'])}"
    known = kubernetes_type(schema)
    return _linked(known) if known else str(kind)


def _plural(schema: Schema) -> str:
    known = kubernetes_type(schema)
    if known:
        return _linked(known)
    return "integers or strings" if INT_OR_STRING in schema else f"{schema['type']}s"


def _linked(known: KubernetesType) -> str:
    return f"[{known.name}]({known.address})"


def _bounds(schema: Schema, kind: str) -> str:
    lower, upper = schema.get(_LOWER.get(kind, "")), schema.get(_UPPER.get(kind, ""))
    if upper is None:
        return "" if lower is None else f", at least {lower}"
    unit = f" {_UNIT[kind]}" if kind in _UNIT else ""
    if lower == upper:
        return f", exactly {upper}{unit}"
    return f", {lower} to {upper}{unit}" if lower is not None else f", at most {upper}{unit}"


def _default(row: Row) -> str:
    if row.required:
        return "**required**"
    default: Any = row.schema.get("default")
    if default is None or "properties" in row.schema:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
