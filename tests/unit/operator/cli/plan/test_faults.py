"""Error messages about fields of the wrong structure use YAML terms instead of Python terms."""

from typing import Any

import pytest

from tests.support.builders import gaudi_inference
from tests.unit.operator.cli.plan.asked import refusal

NAME = "--enable-auto-tool-choice"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"engine": {"extraArgs": {NAME: True}}}, "spec.engine.extraArgs must be a list, not a mapping"),
        ({"engine": {"extraArgs": NAME}}, f"spec.engine.extraArgs must be a list, not {NAME}"),
        ({"engine": {"extraArgs": [{NAME: True}]}}, "spec.engine.extraArgs.0 must be text, not a mapping"),
        ({"engine": {"extraArgs": [None]}}, "spec.engine.extraArgs.0 must be text, not empty"),
        ({"engine": [1]}, "spec.engine must be a mapping, not a list"),
        ({"engine": {"settings": 5}}, "spec.engine.settings must be a mapping, not 5"),
        ({"engine": {"settings": "x" * 100}}, "spec.engine.settings must be a mapping, not text"),
    ],
)
def test_field_with_the_wrong_structure_is_named(spec: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(gaudi_inference(**spec))
