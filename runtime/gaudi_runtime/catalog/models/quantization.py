"""Quantization: the bits of the matrices of a checkpoint (docs/internals/warmup.md, Quantization).

This module contains the type, the usual quantization of each method, and the reader of `quantization_config` in
config.json.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.catalog.models.config_values import ConfigValues
from gaudi_runtime.contract.config import QuantizationMethod as Method
from gaudi_runtime.errors import UnsupportedModel


@dataclass(frozen=True)
class Quantization:
    """The bits of a quantized matrix, and the scales that are stored with the matrix.

    `group_size` is the number of inputs that share a scale (AWQ, GPTQ), or None for one scale per output. `block_edge`
    is the edge length of the square that shares one 4-byte scale (DeepSeek's FP8). Embeddings, norms, routers and
    biases are not quantized.
    """

    method: Method
    bits: int
    group_size: int | None = None
    zero_points: bool = False
    group_index: bool = False
    block_edge: int | None = None
    quantizes_head: bool = False
    """Whether the output head is quantized as well; it seldom is."""
    quantizes_attention: bool = True
    """Whether attention matrices are quantized; some mixtures of experts keep them."""


ASKED_FOR = {
    Method.INC: Quantization(Method.INC, bits=8),
    Method.FP8: Quantization(Method.FP8, bits=8),
    Method.AWQ: Quantization(Method.AWQ, bits=4, group_size=128, zero_points=True),
    Method.GPTQ: Quantization(Method.GPTQ, bits=4, group_size=128, zero_points=True, group_index=True),
    Method.COMPRESSED_TENSORS: Quantization(Method.COMPRESSED_TENSORS, bits=8),
    Method.MODELOPT: Quantization(Method.MODELOPT, bits=8),
    Method.MXFP4: Quantization(Method.MXFP4, bits=4, group_size=32),
}
"""The usual quantization of each method, for a checkpoint about which nothing else is known."""


def effective_quantization(checkpoint_quantization: Quantization | None, method: Method | None) -> Quantization | None:
    """Return the quantization of the stored matrices from the checkpoint's quantization and the requested method."""
    # INC quantizes while the model is loaded, so it overrides the checkpoint. Any other method comes from the
    # checkpoint.
    if method is Method.INC or checkpoint_quantization is None:
        return ASKED_FOR[method] if method else None
    return checkpoint_quantization


def read_quantization(config: ConfigValues) -> Quantization | None:
    """Read the quantization of a checkpoint. Return None if it is not quantized.

    Raises UnsupportedModel for an unknown method.
    """
    values = config.nested_object("quantization_config")
    if values is None:
        return None
    method = values.text("quant_method", "")
    if method not in _READERS:
        raise UnsupportedModel(
            f"config.json has quant_method {method!r}, but memory can only be calculated for {', '.join(_READERS)}"
        )
    return _READERS[method](values)


def _gptq(values: ConfigValues) -> Quantization:
    return Quantization(
        Method.GPTQ,
        bits=values.integer("bits", high=8),
        group_size=_group_size(values, "group_size"),
        zero_points=True,
        group_index=True,
        quantizes_head=values.flag("lm_head", False),
    )


def _awq(values: ConfigValues) -> Quantization:
    return Quantization(
        Method.AWQ,
        bits=values.integer("bits", 4, high=8),
        group_size=_group_size(values, "group_size"),
        zero_points=values.flag("zero_point", True),
        quantizes_attention="self_attn" not in values.texts("modules_to_not_convert"),
    )


def _fp8(values: ConfigValues) -> Quantization:
    block_shape = values.integers("weight_block_size")
    return Quantization(Method.FP8, bits=8, block_edge=block_shape[0] if block_shape else None)


def _compressed_tensors(values: ConfigValues) -> Quantization:
    """Read the quantization of a checkpoint in the compressed-tensors format."""
    # The first group is used for all matrices, because config.json assigns matrices to groups by name patterns only.
    groups = values.nested_object("config_groups")
    first_group = next(iter(groups.nested_objects()), None) if groups else None
    weights = first_group.nested_object("weights") if first_group else None
    if weights is None:
        raise UnsupportedModel("config.json: quantization_config has no config_groups with weights")
    bits = weights.integer("num_bits", high=8)
    return Quantization(
        Method.COMPRESSED_TENSORS,
        bits=bits,
        group_size=_group_size(weights, "group_size"),
        # The method quantizes all linear layers. This includes the output head unless `ignore` lists `lm_head`.
        quantizes_head="lm_head" not in values.texts("ignore"),
    )


def _modelopt(values: ConfigValues) -> Quantization:
    algorithm = values.text("quant_algo", "")
    if algorithm != "FP8":
        raise UnsupportedModel(
            f"config.json has quant_method modelopt with quant_algo {algorithm!r}, but memory can only be calculated "
            "for FP8"
        )
    return Quantization(Method.MODELOPT, bits=8)


def _group_size(values: ConfigValues, key: str) -> int | None:
    """Return the number of inputs that share a scale, or None if all inputs share one scale."""
    # A checkpoint without groups has the value -1, as in AutoGPTQ, or no key.
    size = values.integer(key, -1, low=-1)
    return size if size > 0 else None


_READERS: dict[str, Callable[[ConfigValues], Quantization]] = {
    "gptq": _gptq,
    "awq": _awq,
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "inc": lambda _: ASKED_FOR[Method.INC],
}
