"""`gaudi-plan` reports the same problems with settings as the operator and the runtime."""

import json
from typing import Any

import pytest

from gaudi_operator.cli.plan.document import read_plan_document
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.setting_errors import setting_error
from tests.support.builders import gaudi_inference
from tests.unit.runtime.knobs.configs import vllm_config


def manifest(**settings: Any) -> dict[str, Any]:
    return gaudi_inference(engine={"name": "sim", "settings": settings})


def config(settings: dict[str, str]) -> dict[str, Any]:
    document = vllm_config(engine={"settings": settings}).model_dump_json(by_alias=True, exclude_none=True)
    read: dict[str, Any] = json.loads(document)
    return read


def test_wrong_setting_of_a_manifest_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        read_plan_document(manifest(VLLM_USE_V1="1"))
    assert str(refused.value).startswith("spec.engine.settings: VLLM_USE_V1 ")
    assert not str(refused.value).endswith("."), "the command line ends the sentence"


def test_wrong_setting_of_a_runtime_config_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        read_plan_document(config({"LOG_LEVEL_ALL": "9"}))
    assert str(refused.value) == f"engine.settings: {setting_error('LOG_LEVEL_ALL', '9')}"


def test_setting_ignored_by_the_engine_causes_a_warning() -> None:
    said = read_plan_document(manifest(LOG_LEVEL_ALL="4")).warnings
    assert any(each.startswith("engine.settings LOG_LEVEL_ALL is ignored by the sim engine") for each in said)
