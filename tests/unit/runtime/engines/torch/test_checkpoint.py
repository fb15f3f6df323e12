"""Every fault of a checkpoint ends the start with an error message."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.errors import (
    ConfigError,
    DeviceUnavailable,
    ModelNotFound,
    ModelUnreadable,
    PlanImpossible,
    RuntimeStartError,
    UnsupportedModel,
)
from tests.unit.runtime.engines.torch.engines import torch_config


@pytest.fixture
def folder(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint that a test may damage."""
    return Path(shutil.copytree(checkpoint, tmp_path / "model"))


def refuses(folder: Path, error: type[RuntimeStartError], sentence: str, **settings: Any) -> None:
    engine = TorchEngine(torch_config(folder, **settings))
    with pytest.raises(error, match=sentence):
        engine.load(lambda: None)


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_missing_folder_raises_model_not_found(tmp_path: Path) -> None:
    refuses(tmp_path / "nowhere", ModelNotFound, r"Folder .*nowhere does not exist")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_file_raises_model_not_found(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refuses(folder, ModelNotFound, rf"{name} is missing")


def test_missing_tokenizer_raises_model_not_found(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    refuses(folder, ModelNotFound, "has no tokenizer")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_broken_json_is_unreadable(folder: Path, name: str) -> None:
    (folder / name).write_text("{")
    refuses(folder, ModelUnreadable, rf"{name} cannot be read as JSON")


def test_config_without_model_type_is_unreadable(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    refuses(folder, ModelUnreadable, "has no model_type")


def test_broken_tokenizer_is_unreadable(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    refuses(folder, ModelUnreadable, "the tokenizer in .* cannot be loaded")


def test_missing_tensor_is_unreadable(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    refuses(folder, ModelUnreadable, r"lack 1 tensors .* \(the first is model\.layers\.1\.mlp\.up_proj\.weight")


def test_tensor_of_another_shape_is_unreadable(folder: Path) -> None:
    edit(folder, intermediate_size=128)
    refuses(folder, ModelUnreadable, "cannot be loaded")


def test_unknown_architecture_is_unsupported(folder: Path) -> None:
    edit(folder, architectures=["FalconForCausalLM"])
    refuses(folder, UnsupportedModel, "architecture FalconForCausalLM, but the torch engine supports only Llama")


def test_unknown_model_type_is_unsupported(folder: Path) -> None:
    edit(folder, model_type="never_heard_of")
    refuses(folder, UnsupportedModel, "never_heard_of")


def test_quantized_weights_are_unsupported(folder: Path) -> None:
    edit(folder, quantization_config={"quant_method": "awq"})
    refuses(folder, UnsupportedModel, "quantization_config")


def test_sliding_window_is_unsupported(folder: Path) -> None:
    edit(folder, layer_types=["full_attention", "sliding_attention"], sliding_window=16, use_sliding_window=True)
    refuses(folder, UnsupportedModel, "sliding-window")


def test_length_dependent_rope_is_unsupported(folder: Path) -> None:
    edit(folder, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0})
    refuses(folder, UnsupportedModel, "rope_type: dynamic")


def test_too_long_context_is_impossible(folder: Path) -> None:
    refuses(folder, PlanImpossible, "maxModelLen is 5000, but the model supports at most 4096", max_model_len=5000)


def test_weights_beyond_the_budget_are_impossible(folder: Path) -> None:
    refuses(folder, PlanImpossible, "the weights do not fit", engine={"device_memory_bytes": 1_000_000})


def test_cpu_without_device_memory_is_a_config_error(folder: Path) -> None:
    refuses(folder, ConfigError, "deviceMemoryBytes is missing", engine={"device_memory_bytes": None})


def test_hpu_without_its_software_is_unavailable(folder: Path) -> None:
    engine = {"device": "hpu", "execution_mode": ExecutionMode.HPU_GRAPHS}
    refuses(folder, DeviceUnavailable, "habana_frameworks cannot be imported", engine=engine)
