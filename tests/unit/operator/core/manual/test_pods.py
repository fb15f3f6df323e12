"""docs/how-to/pods.md: its examples are accepted, and every quantity and size of spec.pod has a row."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources, ResourceAmounts
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.core.admission.engine_settings import why_engine_settings_are_ignored
from gaudi_operator.core.admission.spec_checks import first_spec_violation
from tests.support.builders import merged
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference

PAGE = (Path(__file__).parents[5] / "docs" / "how-to" / "pods.md").read_text()
EXAMPLES = {
    title: [yaml.safe_load(text)["spec"] for text in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)]
    for title, _, section in (part.partition("\n") for part in PAGE.split("\n## ")[1:])
}
KINDS = ContainerResources.model_fields
ALL = [(title, example) for title, examples in EXAMPLES.items() for example in examples]


@pytest.mark.parametrize(("title", "example"), ALL, ids=[title for title, _ in ALL])
def test_example_is_accepted_and_has_an_effect(title: str, example: dict[str, Any]) -> None:
    found = inference(**merged({"accelerator": CARD, "engine": {"name": "vllm"}}, example))
    assert first_spec_violation(found, DEFAULTS) is None
    assert why_engine_settings_are_ignored(found) is None


def test_sections_with_fields_have_examples() -> None:
    titles = ["A private CA", "Over zones", "Quota systems", "Init containers and sidecars"]
    assert [title for title, examples in EXAMPLES.items() if examples] == titles


def test_every_size_field_has_a_row() -> None:
    table = PAGE.partition("## Sizes")[2].partition("\n## ")[0]
    sizes = {str(field.alias) for name, field in Pod.model_fields.items() if name.endswith("_size")}
    amounts = {f"resources.{kind}.{each.alias}" for kind in KINDS for each in ResourceAmounts.model_fields.values()}
    assert amounts | sizes <= set(re.findall(r"`([\w.-]+)`", table))
