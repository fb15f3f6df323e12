"""The reference page agrees with the schema."""

from gaudi_operator.api.reference import reference, rows
from tests.unit.operator.api.schema_nodes import ROOT, SPEC

PAGE = reference(ROOT)


def test_row_has_type_bounds_default_and_meaning() -> None:
    assert "| `blockSize` | integer, 1 to 4096 | `128` | Number of tokens per KV block. |" in PAGE


def test_required_field_is_marked() -> None:
    assert "| `maxModelLen` | integer, 1 to 16777216 | **required** |" in PAGE


def test_fixed_length_is_shown_once() -> None:
    assert "| `coldShapes[].shape` | list of integers, exactly 3 entries |" in PAGE


def test_enum_lists_its_values() -> None:
    assert "| `accessMode` | `ReadWriteMany` or `ReadWriteOnce` | `ReadWriteMany` |" in PAGE


def test_boolean_default_is_written_as_in_yaml() -> None:
    assert "| `paused` | boolean | `false` |" in PAGE


def test_entry_of_a_list_has_its_own_rows() -> None:
    assert "| `env[].valueFrom.secretKeyRef.name` |" in PAGE


def test_rule_is_listed_in_its_section() -> None:
    section = PAGE.split("### spec.rollout\n")[1].split("### ")[0]
    assert "\n- spec.rollout.maxSurge and maxUnavailable cannot" in section


def test_rule_of_a_value_names_its_field() -> None:
    assert "\n- `spec.model.source.hostPath.path` must be" in PAGE


def test_rule_of_the_name_is_listed() -> None:
    assert "\n- metadata.name must be" in PAGE


def test_every_field_of_a_section_has_a_row() -> None:
    engine = SPEC["spec.engine"]
    below = [path for path in SPEC if path.startswith("spec.engine.") and path[-1] not in "]}"]
    assert len(list(rows(engine))) == len(below)


def test_pipe_in_a_text_does_not_break_the_table() -> None:
    described = {"type": "object", "properties": {"a": {"type": "boolean", "description": "x | y"}}}
    spec = {"type": "object", "description": "S.", "properties": {"part": described | {"description": "P."}}}
    assert "| x \\| y |" in reference({"properties": {"spec": spec, "status": spec}})
