"""The settings that depend on the layers of the fetched model."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.engines.adjust_to_model import adjust_to_model
from gaudi_runtime.engines.vllm import versions
from gaudi_runtime.errors import ConfigError, ModelNotFound
from tests.unit.runtime.knobs.configs import vllm_config


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


@pytest.mark.parametrize(
    ("model", "changes", "remedy"),
    [
        (
            {"model_type": "qwen3_next", "layer_types": ["linear_attention", "full_attention"], "num_hidden_layers": 2},
            {"limits": {"prefixCaching": True}},
            "Set spec.engine.prefixCaching to false.",
        ),
        (
            {"model_type": "qwen3_moe", "num_experts": 8},
            {"limits": {"splitsPrompts": True}, "parallelism": {"data": 2}},
            "maxNumBatchedTokens to at least maxModelLen.",
        ),
    ],
    ids=["states with prefix caching", "experts with context"],
)
def test_settings_that_a_model_excludes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: dict[str, Any], changes: dict[str, Any], remedy: str
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(versions, "installed_plugin", lambda: "0.26.0")
    monkeypatch.setattr(versions, "installed_release", lambda: "0.26.0")
    (tmp_path / "config.json").write_text(json.dumps(model))
    with pytest.raises(ConfigError) as refused:
        adjust_to_model(vllm_config(model={"path": str(tmp_path)}, **changes))
    assert str(refused.value).endswith(remedy)


def test_users_variable_is_kept_for_layers_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "VLLM_CONTIGUOUS_PA": "false"})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    adjust_to_model(vllm_config(model={"path": str(tmp_path)}))
    assert os.environ["VLLM_CONTIGUOUS_PA"] == "false"
