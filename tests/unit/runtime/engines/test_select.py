"""The environment variables of the engine's process, and the settings that depend on the model."""

import json
import os
from pathlib import Path

import pytest

from gaudi_runtime.engines.select import adjust_to_model, set_environment
from gaudi_runtime.errors import ModelNotFound
from tests.unit.runtime.knobs.configs import vllm_config


def test_knobs_are_set_in_the_environment() -> None:
    environment: dict[str, str] = {}
    set_environment(vllm_config(engine={"settings": {"HCCL_SOCKET_IFNAME": "eth0"}}), environment)
    assert (environment["HCCL_SOCKET_IFNAME"], environment["PT_HPU_LAZY_MODE"]) == ("eth0", "1")


def test_existing_environment_variable_has_precedence() -> None:
    environment = {"LOG_LEVEL_ALL": "6", "PATH": "/bin"}
    set_environment(vllm_config(engine={"settings": {"LOG_LEVEL_ALL": "3"}}), environment)
    assert (environment["LOG_LEVEL_ALL"], environment["PATH"]) == ("6", "/bin")


def test_api_key_is_set_without_its_newline() -> None:
    environment = {"VLLM_API_KEY": "sk-key\n"}
    set_environment(vllm_config(), environment)
    assert environment["VLLM_API_KEY"] == "sk-key"


@pytest.mark.parametrize(("types", "contiguous"), [(("sliding", "full"), False), (("full", "full"), True)])
def test_layers_of_several_kinds_switch_contiguous_attention_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: tuple[str, str], contiguous: bool
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    layers = {"layer_types": [f"{each}_attention" for each in types], "num_hidden_layers": 2, "sliding_window": 512}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3_text", **layers}))
    found = adjust_to_model(vllm_config(model={"path": str(tmp_path)}))
    assert found.limits.contiguous_paged_attention is contiguous
    assert os.environ["VLLM_CONTIGUOUS_PA"] == str(contiguous).lower()


def test_missing_folder_of_the_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no-such-folder does not exist"):
        adjust_to_model(vllm_config(model={"path": str(tmp_path / "no-such-folder")}))
