"""The content of a rendered revision: templates, configuration and inputs."""

import json
from typing import Any

import pytest

from gaudi_operator.core.rollout.revision import Revision, RevisionPodGroup
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_operator.core.text_formats import format_canonical_json
from tests.unit.operator.core.resources import DEFAULTS, inference


def template(path: str) -> dict[str, Any]:
    return {"spec": {"volumes": [{"name": "model", "hostPath": {"path": path}}]}}


def test_templates_of_a_group_are_those_of_the_revision() -> None:
    revision = Revision("r", 1, {}, template("/leader"), "", group=RevisionPodGroup(2, template("/worker")))
    assert revision.templates == (template("/leader"), template("/worker"))


@pytest.mark.parametrize("rendered", [{}, {"spec": {}}, template("/models")], ids=["no spec", "no volumes", "others"])
def test_template_without_a_config_map_mount_has_no_config_map(rendered: dict[str, Any]) -> None:
    assert Revision("r", 1, {}, rendered, "").config_map_name is None


def test_configuration_omits_unset_fields() -> None:
    assert "null" not in choose_desired_revision(inference(), (), DEFAULTS).config


def test_inputs_omit_unset_fields() -> None:
    assert "null" not in format_canonical_json(choose_desired_revision(inference(), (), DEFAULTS).inputs)


def test_configuration_has_api_field_names() -> None:
    found = json.loads(choose_desired_revision(inference(model={"maxModelLen": 512}), (), DEFAULTS).config)
    assert found["limits"]["maxModelLen"] == 512


def test_inputs_decide_that_pods_are_simulated() -> None:
    assert Revision("r", 1, {"engine": {"name": "sim"}}, {}, "").is_simulated
