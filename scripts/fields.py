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
        "Affinity",
        "Condition",
        "ConfigMapKeySelector",
        "Container",
        "EnvVar",
        "HorizontalPodAutoscalerBehavior",
        "LabelSelector",
        "LocalObjectReference",
        "MetricSpec",
        "NetworkPolicyPeer",
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
    why: str


def all_fields() -> Fields:
    """Return the paths of the schema."""
    resource, of_class = root_schema()["properties"], class_schema()["properties"]
    schemas = zip(PARTS, (resource["spec"], resource["status"], of_class["spec"]), strict=True)
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
        elif found := ROW.match(line):
            for name in re.findall(r"`([^`]+)`", found["fields"]):
                path = f"{section}.{name}".replace(".[]", "[]")
                yield Row(f"{path.split('.')[0]} of {kind}", path, (found["type"] or "").strip("`"), found["why"])


def problems(page: str, fields: Fields) -> list[str]:
    """Return a sentence for each field without a row, each row without a field, and each incomplete row."""
    found: list[str] = []
    known: set[tuple[str, str]] = set()
    for row in read_rows(page):
        where = f"{PAGE.relative_to(ROOT)}: {row.path} ({row.part})"
        if row.path not in fields.get(row.part, ()):
            found.append(f"{where} is not in the schema: delete its row.")
        if (row.part, row.path) in known:
            found.append(f"{where} has two rows: delete one.")
        if not row.why.endswith("."):
            found.append(f"{where} has no reason: write why it is there, as a sentence.")
        if row.type and _wrong_type(row, fields):
            found.append(f"{where} does not have the fields of {row.type}: name another type, or list its fields.")
        known.add((row.part, row.path))
    counted = _counted(page, fields)
    for part, paths in fields.items():
        found += [
            f"{PAGE.relative_to(ROOT)}: {path} ({part}) has no row: write why it is there, or delete the field."
            for path in sorted(paths)
            if (part, path) not in known and path in counted[part]
        ]
    return found


def _wrong_type(row: Row, fields: Fields) -> bool:
    members = _members(row.path, fields.get(row.part, set()))
    if row.type in KUBERNETES_TYPES:
        return not members
    return not members or members != _members(row.type, set.union(*fields.values()))


def _members(path: str, paths: set[str]) -> set[str]:
    """Return the paths below a field, relative to the field or to the entries of its list."""
    below = re.compile(rf"{re.escape(path)}(\[\])?\.")
    return {below.sub("", each, count=1) for each in paths if below.match(each)}


def _counted(page: str, fields: Fields) -> Fields:
    """Return the fields that need a row. If the row of a field names a type, the members of the field need no row."""
    typed = [row for row in read_rows(page) if row.type]
    return {
        part: {
            path
            for path in paths
            if not any(row.part == part and re.match(rf"{re.escape(row.path)}(\[\])?\.", path) for row in typed)
        }
        for part, paths in fields.items()
    }


def with_counts(page: str, fields: Fields) -> str:
    """Return the page with current counts in its first table."""
    counted = _counted(page, fields)
    for part, paths in fields.items():
        line = rf"(?m)^\| {re.escape(part)} \| \d+ \| \d+ \|$"
        page = re.sub(line, f"| {part} | {len(paths)} | {len(counted[part])} |", page)
    return page


def main() -> int:
    """Command line of `python -m scripts.fields [--check]`."""
    page, fields = PAGE.read_text(), all_fields()
    found = problems(page, fields)
    sys.stderr.writelines(f"{each}\n" for each in found)
    return int(bool(found)) or write_or_check({PAGE: with_counts(page, fields)})


if __name__ == "__main__":
    sys.exit(main())
