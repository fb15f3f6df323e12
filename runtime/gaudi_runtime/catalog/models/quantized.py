"""`quantization_config` of a config.json -> Quantization (docs/memory.md, Quantization)."""

from gaudi_runtime.catalog.models.facts import Facts
from gaudi_runtime.catalog.models.quantization import Quantization
from gaudi_runtime.contract.config import QuantizationMethod as Method
from gaudi_runtime.errors import UnsupportedModel

ASKED_FOR = {
    Method.INC: Quantization(Method.INC, bits=8),
    Method.FP8: Quantization(Method.FP8, bits=8),
    Method.AWQ: Quantization(Method.AWQ, bits=4, group=128, zero_points=True),
    Method.GPTQ: Quantization(Method.GPTQ, bits=4, group=128, zero_points=True, group_index=True),
    Method.COMPRESSED_TENSORS: Quantization(Method.COMPRESSED_TENSORS, bits=8),
    Method.MODELOPT: Quantization(Method.MODELOPT, bits=8),
    Method.MXFP4: Quantization(Method.MXFP4, bits=4, group=32),
}
"""What a method usually does to a checkpoint of which nothing else is known."""


def effective(checkpoint: Quantization | None, asked: Method | None) -> Quantization | None:
    """How matrices are held: INC quantizes while loading whatever the checkpoint says, else the checkpoint decides."""
    if asked is Method.INC or checkpoint is None:
        return ASKED_FOR[asked] if asked else None
    return checkpoint


def read_quantization(outer: Facts) -> Quantization | None:
    """The format of the checkpoint's matrices; None without one. Raises UnsupportedModel for an unknown one."""
    facts = outer.part("quantization_config")
    if facts is None:
        return None
    method = facts.text("quant_method", "")
    readers = {
        "gptq": _gptq,
        "awq": _awq,
        "fp8": _fp8,
        "fbgemm_fp8": _fp8,
        "compressed-tensors": _compressed,
        "modelopt": _modelopt,
        "inc": _inc,
    }
    if method not in readers:
        raise UnsupportedModel(
            f"config.json has quant_method {method!r}; memory is calculated for {', '.join(readers)}"
        )
    return readers[method](facts)


def _gptq(facts: Facts) -> Quantization:
    return Quantization(
        Method.GPTQ,
        bits=facts.whole("bits", most=8),
        group=_group(facts, "group_size"),
        zero_points=True,
        group_index=True,
        head=facts.flag("lm_head", False),
    )


def _awq(facts: Facts) -> Quantization:
    return Quantization(
        Method.AWQ,
        bits=facts.whole("bits", 4, most=8),
        group=_group(facts, "group_size"),
        zero_points=facts.flag("zero_point", True),
        attention="self_attn" not in facts.texts("modules_to_not_convert"),
    )


def _fp8(facts: Facts) -> Quantization:
    block = facts.wholes("weight_block_size")
    return Quantization(Method.FP8, bits=8, block=block[0] if block else None)


def _compressed(facts: Facts) -> Quantization:
    """The first group of compressed-tensors; its output head is quantized unless it is ignored."""
    groups = facts.part("config_groups")
    first = next(iter(groups.parts()), None) if groups else None
    weights = first.part("weights") if first else None
    if weights is None:
        raise UnsupportedModel("config.json: quantization_config has no config_groups with weights")
    bits = weights.whole("num_bits", most=8)
    return Quantization(
        Method.COMPRESSED_TENSORS,
        bits=bits,
        group=_group(weights, "group_size"),
        head="lm_head" not in facts.texts("ignore"),
    )


def _inc(_: Facts) -> Quantization:
    return ASKED_FOR[Method.INC]


def _modelopt(facts: Facts) -> Quantization:
    algorithm = facts.text("quant_algo", "")
    if algorithm != "FP8":
        raise UnsupportedModel(f"config.json has quant_algo {algorithm!r} of modelopt; memory is calculated for FP8")
    return Quantization(Method.MODELOPT, bits=8)


def _group(facts: Facts, key: str) -> int | None:
    """Inputs that share a scale; -1 and a missing key mean one scale for all of them."""
    size = facts.whole(key, -1, least=-1)
    return size if size > 0 else None
