"""The reference pages agree with the schema."""

import re
from typing import Any

import pytest

from gaudi_operator.api.crd import class_schema
from gaudi_operator.api.reference.kubernetes_types import KUBERNETES_TYPES, KubernetesType
from gaudi_operator.api.reference.pages import FOLDER, class_page, inference_pages
from gaudi_operator.api.reference.tables import nested_fields
from tests.unit.operator.api.schema_nodes import ROOT, SPEC, STATUS

PAGES = {path.removeprefix(f"{FOLDER}/"): text for path, text in inference_pages(ROOT).items()}
TYPES = PAGES["kubernetes-types.md"]
ALL = "\n".join((*PAGES.values(), class_page(class_schema())))
RULES = "x-kubernetes-validations"


def test_row_has_type_bounds_default_and_description() -> None:
    assert "| `blockSize` | integer, 1 to 4096 | `128` | Number of tokens per KV block. |" in PAGES["engine.md"]


def test_required_field_is_marked() -> None:
    assert "| `maxModelLen` | integer, 1 to 16777216 | **required** |" in PAGES["model.md"]


def test_fixed_length_is_shown_once() -> None:
    assert "| `coldShapes[].shape` | list of integers, exactly 3 entries |" in PAGES["status.md"]


def test_enum_lists_its_values() -> None:
    assert "| `accessMode` | `ReadWriteMany` or `ReadWriteOnce` | `ReadWriteMany` |" in PAGES["recipe-cache.md"]


def test_boolean_default_is_written_as_in_yaml() -> None:
    assert "| `paused` | boolean | `false` |" in PAGES["rollout.md"]


def test_list_entries_have_separate_rows() -> None:
    assert "| `lora.adapters[].source.huggingFace.repo` |" in PAGES["model.md"]


@pytest.mark.parametrize("section", [path for path in SPEC if path.count(".") == 1 and "properties" in SPEC[path]])
def test_index_links_every_section(section: str) -> None:
    name = section.removeprefix("spec.")
    assert re.search(rf"^\| \[`{name}`\]\([a-z-]+\.md\)", PAGES["index.md"], re.MULTILINE)


def test_index_shows_fields_without_a_section() -> None:
    assert "| `replicas` | integer, 0 to 1000 | `1` |" in PAGES["index.md"]


def test_rule_is_listed_in_its_section() -> None:
    assert "\n- spec.rollout.maxSurge must be above 0" in PAGES["rollout.md"]


def test_rule_of_two_sections_is_on_one_page() -> None:
    sentence = "\n- spec.engine.blockSize must be at most model.maxModelLen."
    assert [name for name, text in PAGES.items() if sentence in text] == ["engine.md"]


def test_rule_of_a_single_field_names_the_field() -> None:
    assert "\n- `spec.model.source.hostPath.path` must be" in PAGES["model.md"]


def test_rule_of_the_resource_name_is_on_the_index_page() -> None:
    assert "\n- metadata.name must be" in PAGES["index.md"]


def test_every_rule_is_on_a_page() -> None:
    rules = [rule["message"] for node in (ROOT, *SPEC.values(), *STATUS.values()) for rule in node.get(RULES, ())]
    assert [message for message in rules if f"{message}.\n" not in ALL] == []


def test_field_of_a_kubernetes_type_names_the_type() -> None:
    row = next(line for line in PAGES["pod.md"].splitlines() if line.startswith("| `tolerations` |"))
    assert "list of [Toleration](https://kubernetes.io/" in row
    assert row.endswith("Tolerations of the pods. [Members](kubernetes-types.md#toleration). |")


def test_members_of_a_kubernetes_type_are_listed_once() -> None:
    assert [name for name, text in PAGES.items() if "tolerationSeconds" in text] == ["kubernetes-types.md"]


def test_kubernetes_member_with_unchanged_meaning_has_no_description() -> None:
    assert "| `tolerationSeconds` | integer, 0 to 604800 |  |  |" in TYPES


def test_kubernetes_member_with_a_different_default_has_a_description() -> None:
    assert "| `readOnly` | boolean | `true` | Whether the mount is read-only." in TYPES


@pytest.mark.parametrize("kind", KUBERNETES_TYPES, ids=lambda each: each.name)
def test_listed_kubernetes_type_is_the_type_of_a_field(kind: KubernetesType) -> None:
    assert f"kubernetes-types.md#{kind.name.lower()})" in ALL or f"](#{kind.name.lower()})" in TYPES


@pytest.mark.parametrize("kind", KUBERNETES_TYPES, ids=lambda each: each.name)
def test_described_kubernetes_members_exist_in_the_schema(kind: KubernetesType) -> None:
    assert kind.differences <= {row.path for row in nested_fields(kind.schema)}


def test_every_field_of_a_section_has_a_row() -> None:
    engine = SPEC["spec.engine"]
    below = [path for path in SPEC if path.startswith("spec.engine.") and path[-1] not in "]}"]
    assert len(list(nested_fields(engine))) == len(below)


def test_class_page_links_to_the_kubernetes_types() -> None:
    assert "[Members](gaudi-inference/kubernetes-types.md#toleration)" in class_page(class_schema())


def test_pipe_character_is_escaped_in_tables() -> None:
    described: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "boolean", "description": "x | y"}}}
    spec = {"type": "object", "description": "S.", "properties": {"part": described | {"description": "P."}}}
    assert "| x \\| y |" in inference_pages({"properties": {"spec": spec, "status": spec}})[f"{FOLDER}/part.md"]
