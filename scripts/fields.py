"""Check that docs/contributing/fields.md gives a reason for each field of the API, and write its counts.

`python -m scripts.fields` writes the table of counts. With `--check`, it only fails if the table differs. Both fail if
a field has no row, a row has no field, or a row has no reason.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gaudi_operator.api.crd import class_schema, root_schema
from gaudi_operator.api.reference.tables import nested_fields
from scripts.generated import ROOT, write_or_check

PAGE = ROOT / "docs" / "contributing" / "fields.md"

KUBERNETES_TYPES = frozenset(
    {
        "Condition",
        "Container",
        "EnvVar",
        "LabelSelector",
        "LocalObjectReference",
        "ResourceRequirements",
        "SecretKeySelector",
        "Toleration",
        "TopologySpreadConstraint",
        "Volume",
        "VolumeMount",
    }
)
"""The Kubernetes types whose members need no row."""

PARTS = ("spec of GaudiInference", "status of GaudiInference", "spec of GaudiInferenceClass")
ROW = re.compile(r"^\| (?P<fields>`[^|]+`) \| ?(?P<type>`[^|]+`)? ?\| (?P<why>[^|]*) \|$")

Fields = Mapping[str, set[str]]
"""The paths of all fields by part of the API, such as spec.model.source or status.pods[].name."""


class Row(NamedTuple):
    """One field of the page. `type` is a Kubernetes type, the path of a field with the same members, or empty."""

    part: str
    path: str
    type: str
    reason: str


def all_fields() -> Fields:
    """Return the paths of the schema."""
    resource_fields, class_fields = root_schema()["properties"], class_schema()["properties"]
    schemas = zip(PARTS, (resource_fields["spec"], resource_fields["status"], class_fields["spec"]), strict=True)
    return {
        part: {f"{part.split()[0]}.{row.path}".replace(".[]", "[]") for row in nested_fields(schema)}
        for part, schema in schemas
    }


def read_rows(page: str) -> Iterator[Row]:
    """Yield the rows of the page, each with the whole path of its field."""
    kind = section = ""
    for line in page.splitlines():
        if line.startswith("## "):
            kind = line.removeprefix("## ")
        elif line.startswith("### "):
            section = line.removeprefix("### ")
        elif match := ROW.match(line):
            for name in re.findall(r"`([^`]+)`", match["fields"]):
                path = f"{section}.{name}".replace(".[]", "[]")
                yield Row(f"{path.split('.')[0]} of {kind}", path, (match["type"] or "").strip("`"), match["why"])


def find_errors(page: str, fields: Fields) -> list[str]:
    """Return a sentence for each field without a row, each row without a field, and each incomplete row."""
    errors: list[str] = []
    seen_fields: set[tuple[str, str]] = set()
    for row in read_rows(page):
        place = f"{PAGE.relative_to(ROOT)}: {row.path} ({row.part})"
        if row.path not in fields.get(row.part, ()):
            errors.append(f"{place} is not in the schema: delete its row.")
        if (row.part, row.path) in seen_fields:
            errors.append(f"{place} has two rows: delete one.")
        if not row.reason.endswith("."):
            errors.append(f"{place} has no reason: write why it is there, as a sentence.")
        if row.type and _wrong_type(row, fields):
            errors.append(f"{place} does not have the fields of {row.type}: name another type, or list its fields.")
        seen_fields.add((row.part, row.path))
    fields_needing_rows = _fields_needing_rows(page, fields)
    for part, paths in fields.items():
        errors += [
            f"{PAGE.relative_to(ROOT)}: {path} ({part}) has no row: write why it is there, or delete the field."
            for path in sorted(paths)
            if (part, path) not in seen_fields and path in fields_needing_rows[part]
        ]
    return errors


def _wrong_type(row: Row, fields: Fields) -> bool:
    members = _members(row.path, fields.get(row.part, set()))
    if row.type in KUBERNETES_TYPES:
        return not members
    return not members or members != _members(row.type, set.union(*fields.values()))


def _members(path: str, paths: set[str]) -> set[str]:
    """Return the paths below a field, relative to the field or to the entries of its list."""
    prefix = re.compile(rf"{re.escape(path)}(\[\])?\.")
    return {prefix.sub("", member, count=1) for member in paths if prefix.match(member)}


def _fields_needing_rows(page: str, fields: Fields) -> Fields:
    """Return the fields that need a row. If the row of a field names a type, the members of the field need no row."""
    typed_rows = [row for row in read_rows(page) if row.type]
    return {
        part: {
            path
            for path in paths
            if not any(row.part == part and re.match(rf"{re.escape(row.path)}(\[\])?\.", path) for row in typed_rows)
        }
        for part, paths in fields.items()
    }


def update_counts(page: str, fields: Fields) -> str:
    """Return the page with current counts in its first table."""
    fields_needing_rows = _fields_needing_rows(page, fields)
    for part, paths in fields.items():
        row_pattern = rf"(?m)^\| {re.escape(part)} \| \d+ \| \d+ \|$"
        page = re.sub(row_pattern, f"| {part} | {len(paths)} | {len(fields_needing_rows[part])} |", page)
    return page


def main() -> int:
    """Command line of `python -m scripts.fields [--check]`."""
    page, fields = PAGE.read_text(), all_fields()
    errors = find_errors(page, fields)
    sys.stderr.writelines(f"{error}\n" for error in errors)
    return int(bool(errors)) or write_or_check({PAGE: update_counts(page, fields)})


if __name__ == "__main__":
    sys.exit(main())
