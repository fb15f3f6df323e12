"""Checkpoint: a folder with config.json, safetensors files and a tokenizer, checked before anything is loaded.

That the safetensors files are whole was seen before an engine was made (sources/weights.py).
"""

import json
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, GenerationConfig, PreTrainedConfig

from gaudi_runtime.artifacts.sources.weights import INDEX_FILE
from gaudi_runtime.errors import ModelNotFound, ModelUnreadable, UnsupportedModel

WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model")


@dataclass(frozen=True)
class Checkpoint:
    """What the folder's small files say. `stop_tokens` end an answer."""

    folder: Path
    config: PreTrainedConfig
    stop_tokens: frozenset[int]


def open_checkpoint(path: str) -> Checkpoint:
    """Check the files of the folder and read the small ones.

    Raises ModelNotFound for what is missing, ModelUnreadable for what cannot be parsed, and UnsupportedModel for a
    kind of model that transformers does not know.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ModelNotFound(f"model.path {path} is not a folder: mount the checkpoint there")
    settings = _read_json(folder, "config.json")
    if "model_type" not in settings:
        raise ModelUnreadable(f"{folder / 'config.json'} has no model_type: it is not a transformers checkpoint")
    if settings["model_type"] not in CONFIG_MAPPING:
        raise UnsupportedModel(
            f"config.json has model_type {settings['model_type']}, which the installed transformers does not "
            "know: choose a model of the Llama or Qwen family"
        )
    if not any((folder / name).exists() for name in (INDEX_FILE, WEIGHTS_FILE)):
        raise ModelNotFound(f"{folder / WEIGHTS_FILE} is missing: weights are read from safetensors files only")
    _check_tokenizer(folder)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except ValueError as error:
        raise ModelUnreadable(f"{folder / 'config.json'} is refused by transformers: {error}") from error
    return Checkpoint(folder, config, _stop_tokens(folder, config))


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    file = folder / name
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelNotFound(f"{file} is missing: the folder holds no complete checkpoint") from error
    except (JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise ModelUnreadable(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelUnreadable(f"{file} holds no JSON object")
    return content


def _check_tokenizer(folder: Path) -> None:
    if not any((folder / name).exists() for name in TOKENIZER_FILES):
        raise ModelNotFound(f"{folder} has no tokenizer: {' or '.join(TOKENIZER_FILES)} is missing")


def _stop_tokens(folder: Path, config: PreTrainedConfig) -> frozenset[int]:
    """End-of-sequence ids of generation_config.json, otherwise of config.json."""
    wanted = config.eos_token_id
    if (folder / "generation_config.json").exists():
        _read_json(folder, "generation_config.json")
        wanted = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id or wanted
    if wanted is None:
        return frozenset()
    return frozenset(wanted if isinstance(wanted, list) else [wanted])
