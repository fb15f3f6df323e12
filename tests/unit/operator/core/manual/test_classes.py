"""docs/how-to/classes.md: its examples are valid classes and agree with the code."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits, GaudiInferenceClass

PAGE = (Path(__file__).parents[5] / "docs" / "how-to" / "classes.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: str(each["metadata"]["name"]))
def test_example_is_parsed_without_changes(example: dict[str, Any]) -> None:
    read = GaudiInferenceClass.model_validate(example).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert read == {"spec": example["spec"]}


def test_first_example_has_every_limit() -> None:
    names = {field.alias or name for name, field in ClassLimits.model_fields.items()}
    assert set(EXAMPLES[0]["spec"]["limits"]) == names
