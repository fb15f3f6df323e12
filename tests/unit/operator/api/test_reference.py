"""The reference pages agree with the schema."""

from typing import Any

import pytest

from gaudi_operator.api.crd import class_crd_schema
from gaudi_operator.api.reference.kubernetes_types import KUBERNETES_TYPES, KubernetesType
from gaudi_operator.api.reference.pages import FOLDER, class_page, inference_pages
from gaudi_operator.api.reference.tables import nested_table_rows
from tests.unit.operator.api.schema_nodes import ROOT, SPEC

PAGES = {path.removeprefix(f"{FOLDER}/"): text for path, text in inference_pages(ROOT).items()}
SECTIONS = PAGES["spec.md"]
TYPES = PAGES["index.md"].partition("## Kubernetes types")[2]
ALL = "\n".join((*PAGES.values(), class_page(class_crd_schema())))


def test_row_has_type_bounds_default_and_description() -> None:
    assert "| `blockSize` | integer, 1 to 4096, default `128` | Number of tokens per KV block. |" in SECTIONS


def test_required_field_is_marked() -> None:
    assert "| `maxModelLen` | integer, 1 to 16777216, **required** |" in SECTIONS


def test_status_has_types_without_bounds() -> None:
    assert "| `coldShapes[].shape` | list of integers | Shape of the batch:" in PAGES["status.md"]


def test_enum_lists_its_values() -> None:
    assert "| `accessMode` | `ReadWriteMany` or `ReadWriteOnce`, default `ReadWriteMany` |" in SECTIONS


def test_boolean_default_is_written_as_in_yaml() -> None:
    assert "| `paused` | boolean, default `false` |" in SECTIONS


def test_list_entries_have_separate_rows() -> None:
    assert "| `lora.adapters[].source` |" in SECTIONS


def test_members_of_equal_objects_have_rows_once() -> None:
    assert "| `prompt.batchSize.min` |" in SECTIONS
    assert "| `prompt.query` | object | Range of the number of new tokens per sequence. Same fields as" in SECTIONS
    assert "`prompt.query.min`" not in SECTIONS


@pytest.mark.parametrize("section", [path for path in SPEC if path.count(".") == 1 and "properties" in SPEC[path]])
def test_index_links_every_section(section: str) -> None:
    name = section.removeprefix("spec.")
    assert f"\n| [`{name}`](spec.md#spec{name.lower()})" in PAGES["index.md"]
    assert f"\n## {section}\n" in SECTIONS


def test_index_shows_fields_without_a_section() -> None:
    assert "| `replicas` | integer, 0 to 1000, default `1` |" in PAGES["index.md"]


def test_field_of_a_kubernetes_type_names_the_type() -> None:
    row = next(line for line in SECTIONS.splitlines() if line.startswith("| `tolerations` |"))
    assert "list of [Toleration](https://kubernetes.io/" in row
    assert row.endswith("| Tolerations of the pods. |")


def test_members_of_a_kubernetes_type_have_no_rows() -> None:
    assert "`tolerations[]" not in ALL


def test_difference_to_a_kubernetes_type_is_described() -> None:
    assert "`readOnly`: Whether the mount is read-only. Set false" in TYPES


@pytest.mark.parametrize("kind", KUBERNETES_TYPES, ids=lambda each: each.name)
def test_described_kubernetes_members_exist_in_the_schema(kind: KubernetesType) -> None:
    assert kind.differences <= {row.path for row in nested_table_rows(kind.schema)}


def test_every_field_of_a_section_has_a_row() -> None:
    engine = SPEC["spec.engine"]
    below = [path for path in SPEC if path.startswith("spec.engine.") and path[-1] not in "]}"]
    assert len(list(nested_table_rows(engine))) == len(below)


def test_pipe_character_is_escaped_in_tables() -> None:
    described: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "boolean", "description": "x | y"}}}
    spec = {"type": "object", "description": "S.", "properties": {"part": described | {"description": "P."}}}
    assert "| x \\| y |" in inference_pages({"properties": {"spec": spec, "status": spec}})[f"{FOLDER}/spec.md"]
