"""The settings that depend on the layers of the fetched model."""

import json
import os
from pathlib import Path

import pytest

from gaudi_runtime.engines.adjust_to_model import adjust_to_model
from gaudi_runtime.errors import ModelNotFound
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
