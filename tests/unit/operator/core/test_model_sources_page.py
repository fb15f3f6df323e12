"""The example of docs/model-sources.md is accepted."""

from pathlib import Path

import yaml

from gaudi_operator.core.checks import first_violation
from tests.unit.operator.core.resources import DEFAULTS, inference

PAGE = (Path(__file__).parents[4] / "docs" / "model-sources.md").read_text()
EXAMPLE = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])["spec"]["model"]


def test_example_runs() -> None:
    asked = inference(model={**EXAMPLE, "source": {"persistentVolumeClaim": None, **EXAMPLE["source"]}})
    assert asked.spec.model.source.hugging_face is not None
    assert first_violation(asked, DEFAULTS) is None
