"""Conversion of a checkpoint's config.json to a ModelShape (docs/internals/warmup.md, Shapes).

Only known model families are supported.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gaudi_runtime.catalog.models.config_values import ConfigValues
from gaudi_runtime.catalog.models.layers import DEFAULTS, READERS
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import QuantizationMethod
from gaudi_runtime.errors import ModelUnreadable, UnsupportedModel

MAX_CONFIG_BYTES = 4 * 2**20
MAX_LAYERS = 1024
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_DECODERS = ("text_config", "llm_config", "language_config")
_RENAMED = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
}
"""The keys of GPT BigCode, by which other families call them."""


def parse_config_json(text: str) -> ModelShape:
    """Parse the text of a config.json into a ModelShape. Raises ModelUnreadable or UnsupportedModel."""
    if len(text) > MAX_CONFIG_BYTES:
        raise ModelUnreadable(f"config.json is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelUnreadable(f"config.json is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise ModelUnreadable("config.json must contain a JSON object")
    return read_config(config)


def read_config(config: Mapping[str, Any]) -> ModelShape:
    """Read a parsed config.json into a ModelShape. Raises ModelUnreadable or UnsupportedModel."""
    outer = ConfigValues(config)
    decoder = next(filter(None, map(outer.nested_object, _DECODERS)), outer)
    family = decoder.text("model_type", outer.text("model_type", ""))
    if family not in READERS:
        families = ", ".join(sorted(READERS))
        raise UnsupportedModel(
            f"config.json has model_type {family!r}, but memory can only be calculated for {families}"
        )
    values = decoder.with_defaults(DEFAULTS.get(family, {}), _RENAMED)
    hidden, layer_count = values.integer("hidden_size"), values.integer("num_hidden_layers", high=MAX_LAYERS)
    return ModelShape(
        family=family,
        hidden=hidden,
        layers=tuple(READERS[family](values, hidden, index) for index in range(layer_count)),
        vocab=values.integer("vocab_size"),
        tied_embeddings=outer.flag("tie_word_embeddings", values.flag("tie_word_embeddings", False)),
        dtype_bytes=_dtype_bytes(values, outer),
        quantization=_quantization(outer),
        max_length=_max_length(values),
        takes_images="vision_config" in outer,
    )


def _dtype_bytes(text_config: ConfigValues, outer_config: ConfigValues) -> int:
    """Return the bytes of one unquantized number in the checkpoint."""
    # The key is `dtype` since transformers 5, and `torch_dtype` in older versions.
    names = (section.text(key, "") for section in (text_config, outer_config) for key in ("dtype", "torch_dtype"))
    name = next(filter(None, names), "bfloat16")
    if name not in DTYPE_BYTES:
        dtypes = ", ".join(DTYPE_BYTES)
        raise UnsupportedModel(f"config.json has dtype {name!r}, but memory can only be calculated for {dtypes}")
    return DTYPE_BYTES[name]


def _quantization(config: ConfigValues) -> QuantizationMethod | None:
    """Return the method of a quantized checkpoint, or None. Raises UnsupportedModel for an unknown method."""
    values = config.nested_object("quantization_config")
    if values is None:
        return None
    method = values.text("quant_method", "").removeprefix("fbgemm_")
    if method not in list(QuantizationMethod):
        raise UnsupportedModel(
            f"config.json has quant_method {method!r}, but memory can only be calculated for "
            f"{', '.join(QuantizationMethod)}"
        )
    return QuantizationMethod(method)


def _max_length(values: ConfigValues) -> int | None:
    """Return the most tokens of a sequence, or None if config.json does not state them."""
    length = values.first_integer("max_position_embeddings")
    rope = values.nested_object("rope_parameters") or values.nested_object("rope_scaling")
    if rope and "yarn" in (rope.text("rope_type", ""), rope.text("type", "")):
        length = max(length, rope.first_integer("original_max_position_embeddings") * rope.first_integer("factor"))
    return length or None


def read_checkpoint(path: Path) -> ModelShape:
    """Read the shape of a checkpoint from its folder, or from its config.json, and the sizes of its weight files.

    Raises ModelUnreadable, UnsupportedModel, or OSError.
    """
    folder, file = (path, path / "config.json") if path.is_dir() else (path.parent, path)
    with file.open("rb") as stream:
        text = stream.read(MAX_CONFIG_BYTES + 1).decode("utf-8", errors="replace")
    return replace(parse_config_json(text), file_bytes=weight_file_bytes(folder))


def weight_file_bytes(folder: Path) -> int | None:
    """Return the bytes of the weight files in a folder, or the bytes that their index states, or None."""
    sizes = {file.name: file.stat().st_size for file in folder.glob("*.safetensors")}
    # A repository may also have the same weights in the publisher's own format, which vLLM does not load.
    if total := sum(size for name, size in sizes.items() if name.startswith("model")) or sum(sizes.values()):
        return total
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
        return int(index["metadata"]["total_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
