"""Conversion of a checkpoint's config.json to a ModelShape (docs/internals/memory.md, Shapes).

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
    outer = ConfigValues(config)
    values = outer.nested_object("text_config") or outer
    name = values.text("model_type", outer.text("model_type", ""))
    family = FAMILIES.get(name)
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise UnsupportedModel(f"config.json has model_type {name!r}, but memory can only be calculated for {known}")
    shape = _read_shape(name, family, values, outer)
    extra = count_vision_parameters(outer, shape.hidden)
    return replace(shape, extra_parameters=extra, quantization=read_quantization(outer))


def _read_shape(name: str, family: Family, values: ConfigValues, outer: ConfigValues) -> ModelShape:
    hidden = values.integer("hidden_size", family.defaults.get("hidden_size"))
    count = values.integer("num_hidden_layers", family.defaults.get("num_hidden_layers"), most=MAX_LAYERS)
    return ModelShape(
        family=name,
        hidden=hidden,
        layers=tuple(family.layer(values, hidden, index) for index in range(count)),
        vocab=values.integer("vocab_size", family.defaults.get("vocab_size")),
        tied_embeddings=outer.flag("tie_word_embeddings", values.flag("tie_word_embeddings", family.tied)),
        dtype_bytes=_dtype_bytes(values, outer),
    )


def _dtype_bytes(values: ConfigValues, outer: ConfigValues) -> int:
    """Return the bytes of one unquantized number in the checkpoint."""
    # The key is `dtype` since transformers 5, and `torch_dtype` in older versions.
    names = (each.text(key, "") for each in (values, outer) for key in ("dtype", "torch_dtype"))
    name = next(filter(None, names), "bfloat16")
    if name not in DTYPE_BYTES:
        known = ", ".join(DTYPE_BYTES)
        raise UnsupportedModel(f"config.json has dtype {name!r}, but memory can only be calculated for {known}")
    return DTYPE_BYTES[name]
