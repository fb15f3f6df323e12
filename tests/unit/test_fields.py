"""The page docs/contributing/fields.md has one row for each field of the API."""

import pytest

from scripts.fields import PAGE, PARTS, all_fields, find_errors, update_counts

SPEC, STATUS, OF_CLASS = PARTS
FIELDS = {
    SPEC: {"spec.model", "spec.model.cache", "spec.model.cache.name", "spec.env", "spec.env[].name"},
    STATUS: {"status.pods", "status.pods[].name"},
    OF_CLASS: {"spec.cache", "spec.cache.name"},
}
TEXT = """\
| spec of GaudiInference | 0 | 0 |
| status of GaudiInference | 0 | 0 |
| spec of GaudiInferenceClass | 0 | 0 |

## GaudiInference
### spec
| `model` | | Groups. |
| `env` | `EnvVar` | Of Kubernetes. |
### spec.model
| `cache`, `cache.name` | | Kept. |
### status
| `pods` | | Shown. |
### status.pods
| `[].name` | | Identifies. |
## GaudiInferenceClass
### spec
| `cache` | `spec.model.cache` | The same. |
"""


def found(before: str = "", after: str = "") -> list[str]:
    """The problems of the page after one change of its text, without the name of the page."""
    assert before in TEXT
    return [each.split(": ", 1)[1] for each in find_errors(TEXT.replace(before, after, 1) if before else TEXT, FIELDS)]


def test_complete_page_has_no_problems() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("`cache`, `cache.name`", "`cache`", "spec.model.cache.name (spec of GaudiInference) has no row"),
        ("| `[].name` | | Identifies. |\n", "", "status.pods[].name (status of GaudiInference) has no row"),
        ("`model` |", "`model`, `gone` |", "spec.gone (spec of GaudiInference) is not in the schema"),
        ("`model` |", "`model`, `model` |", "spec.model (spec of GaudiInference) has two rows"),
        ("| Kept. |", "| |", "spec.model.cache (spec of GaudiInference) has no row"),
        ("| Kept. |", "| kept |", "spec.model.cache (spec of GaudiInference) has no reason"),
        ("`EnvVar`", "`Env`", "spec.env (spec of GaudiInference) does not have the fields of Env"),
        ("`spec.model.cache`", "`spec.model`", "spec.cache (spec of GaudiInferenceClass) does not have the fields"),
        ("`model` | |", "`model.cache.name` | `EnvVar` |", "spec.model.cache.name (spec of GaudiInference) does not"),
    ],
)
def test_difference_between_page_and_schema_is_reported(before: str, after: str, message: str) -> None:
    assert any(each.startswith(message) for each in found(before, after))


def test_repeated_type_is_counted_once() -> None:
    assert update_counts(TEXT, FIELDS).startswith(
        "| spec of GaudiInference | 5 | 4 |\n"
        "| status of GaudiInference | 2 | 2 |\n"
        "| spec of GaudiInferenceClass | 2 | 1 |\n"
    )


def test_reference_page_has_a_row_for_every_field() -> None:
    assert find_errors(PAGE.read_text(), all_fields()) == []
