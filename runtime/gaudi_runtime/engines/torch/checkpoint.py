"""A checkpoint: config.json, safetensors files and a tokenizer, checked before the weights are loaded.

sources/weights.py has checked that the safetensors files are complete before the engine was created.
"""

import json
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedConfig
from transformers.utils.logging import disable_progress_bar

from gaudi_runtime.artifacts.sources.weights import INDEX_FILE
from gaudi_runtime.contract.config import Dtype
from gaudi_runtime.engines.torch.model import ATTENTION_NAME, Network
from gaudi_runtime.errors import ModelNotFound, ModelUnreadable, UnsupportedModel

WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model")
ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
# Other RoPE types change their frequencies with the sequence length. A captured graph cannot do this.
ROPE_TYPES = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Checkpoint:
    """The small files of a checkpoint after parsing. `stop_tokens` are the tokens that end an answer."""

    folder: Path
    config: PreTrainedConfig
    stop_tokens: frozenset[int]


def open_checkpoint(path: str) -> Checkpoint:
    """Check the files of a checkpoint and read the small files.

    Raises ModelNotFound for a missing file, ModelUnreadable for a file that cannot be parsed, and UnsupportedModel for
    a model type that transformers does not support.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ModelNotFound(f"Folder {path} does not exist. Check the path in spec.model.source.")
    content = _read_json(folder, "config.json")
    if "model_type" not in content:
        raise ModelUnreadable(f"{folder / 'config.json'} has no model_type, so this is not a transformers checkpoint")
    if content["model_type"] not in CONFIG_MAPPING:
        raise UnsupportedModel(
            f"config.json has model_type: {content['model_type']}, but the installed release of transformers does not "
            "support this type. Choose a model of the Llama or Qwen family."
        )
    if not any((folder / name).exists() for name in (INDEX_FILE, WEIGHTS_FILE)):
        raise ModelNotFound(
            f"{folder / WEIGHTS_FILE} is missing. The torch engine reads weights only from safetensors files."
        )
    if not any((folder / name).exists() for name in TOKENIZER_FILES):
        raise ModelNotFound(f"{folder} has no tokenizer file ({' or '.join(TOKENIZER_FILES)})")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except ValueError as error:
        raise ModelUnreadable(f"transformers cannot read {folder / 'config.json'}: {error}") from error
    return Checkpoint(folder, config, _read_stop_tokens(folder, config))


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    file = folder / name
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelNotFound(f"{file} is missing, so the checkpoint is not complete") from error
    except (JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise ModelUnreadable(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelUnreadable(f"{file} does not contain a JSON object")
    return content


def _read_stop_tokens(folder: Path, config: PreTrainedConfig) -> frozenset[int]:
    """Return the end-of-sequence ids of generation_config.json, or of config.json if that file has none."""
    stop_tokens = config.eos_token_id
    if (folder / "generation_config.json").exists():
        # Parse the file here to raise an error, because transformers silently ignores a file that it cannot parse.
        _read_json(folder, "generation_config.json")
        stop_tokens = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id or stop_tokens
    if stop_tokens is None:
        return frozenset()
    return frozenset(stop_tokens if isinstance(stop_tokens, list) else [stop_tokens])


def check_architecture(config: PreTrainedConfig) -> None:
    """Raise UnsupportedModel for a checkpoint that the torch engine would serve incorrectly."""
    name = (config.architectures or ["(none)"])[0]
    if name not in ARCHITECTURES:
        raise UnsupportedModel(
            f"config.json has architecture {name}, but the torch engine supports only {', '.join(ARCHITECTURES)}. "
            "Set engine.name to vllm."
        )
    if getattr(config, "quantization_config", None):
        raise UnsupportedModel(
            "config.json has a quantization_config, but the torch engine supports only unquantized weights. "
            "Set engine.name to vllm, or use an unquantized checkpoint."
        )
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        raise UnsupportedModel(
            "config.json enables sliding-window attention, which the torch engine does not support. "
            "Set engine.name to vllm."
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope not in ROPE_TYPES:
        raise UnsupportedModel(
            f"config.json has rope_type: {rope}, but the torch engine supports only {', '.join(ROPE_TYPES)}. "
            "Set engine.name to vllm."
        )


def load_network(checkpoint: Checkpoint, dtype: Dtype, device: torch.device) -> Network:
    """Load a checkpoint's weights onto the device. Raises ModelUnreadable if a tensor is missing or differs."""
    disable_progress_bar()
    try:
        loader: Any = AutoModelForCausalLM
        network, report = loader.from_pretrained(
            checkpoint.folder,
            local_files_only=True,
            use_safetensors=True,
            dtype="auto" if dtype is Dtype.AUTO else getattr(torch, dtype.value),
            attn_implementation=ATTENTION_NAME,
            output_loading_info=True,
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelUnreadable(f"the weights in {checkpoint.folder} cannot be loaded: {error}") from error
    if missing := sorted(report["missing_keys"]):
        raise ModelUnreadable(
            f"the weights in {checkpoint.folder} lack {len(missing)} tensors that config.json requires (the first is "
            f"{missing[0]}). Download the checkpoint again."
        )
    return network.eval().requires_grad_(False).to(device)
