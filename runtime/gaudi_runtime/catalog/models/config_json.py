"""Conversion of a checkpoint's config.json to a ModelShape (docs/internals/warmup.md, Shapes).

Only known model families are supported.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gaudi_runtime.catalog.models.config_values import ConfigValues
from gaudi_runtime.catalog.models.families import FAMILIES, Family
from gaudi_runtime.catalog.models.quantization import read_quantization
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.catalog.models.vision import count_vision_parameters
from gaudi_runtime.errors import ModelUnreadable, UnsupportedModel

MAX_CONFIG_BYTES = 4 * 2**20
MAX_LAYERS = 1024
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def parse_config(text: str) -> ModelShape:
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
    outer_config = ConfigValues(config)
    text_config = outer_config.nested_object("text_config") or outer_config
    name = text_config.text("model_type", outer_config.text("model_type", ""))
    family = FAMILIES.get(name)
    if family is None:
        families = ", ".join(sorted(FAMILIES))
        raise UnsupportedModel(f"config.json has model_type {name!r}, but memory can only be calculated for {families}")
    shape = _read_shape(name, family, text_config, outer_config)
    vision_parameters = count_vision_parameters(outer_config, shape.hidden)
    return replace(shape, extra_parameters=vision_parameters, quantization=read_quantization(outer_config))


def _read_shape(name: str, family: Family, text_config: ConfigValues, outer_config: ConfigValues) -> ModelShape:
    hidden = text_config.integer("hidden_size", family.defaults.get("hidden_size"))
    layer_count = text_config.integer("num_hidden_layers", family.defaults.get("num_hidden_layers"), high=MAX_LAYERS)
    return ModelShape(
        family=name,
        hidden=hidden,
        layers=tuple(family.read_layer(text_config, hidden, index) for index in range(layer_count)),
        vocab=text_config.integer("vocab_size", family.defaults.get("vocab_size")),
        tied_embeddings=outer_config.flag("tie_word_embeddings", text_config.flag("tie_word_embeddings", family.tied)),
        dtype_bytes=_dtype_bytes(text_config, outer_config),
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
