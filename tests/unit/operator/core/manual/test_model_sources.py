"""The examples of docs/how-to/model-sources.md are accepted."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.core.admission.spec_checks import first_spec_violation
from tests.unit.operator.core.resources import DEFAULTS, inference

PAGE = (Path(__file__).parents[5] / "docs" / "how-to" / "model-sources.md").read_text()
EXAMPLES = [yaml.safe_load(text)["spec"]["model"] for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


@pytest.mark.parametrize("example", EXAMPLES, ids=["image", "hub", "cache"])
def test_example_is_accepted(example: dict[str, Any]) -> None:
    asked = inference(model={**example, "source": {"persistentVolumeClaim": None, **example["source"]}})
    source = asked.spec.model.source
    assert source.hugging_face or source.oci_image
    assert first_spec_violation(asked, DEFAULTS) is None
