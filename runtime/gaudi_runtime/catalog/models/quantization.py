"""Quantization: in how many bits the matrices of a checkpoint are held (docs/memory.md, Quantization)."""

from dataclasses import dataclass

from gaudi_runtime.contract.config import QuantizationMethod


@dataclass(frozen=True)
class Quantization:
    """Bits of a quantized matrix and what is stored beside it.

    `group` is the number of inputs that share a scale (AWQ, GPTQ), None for one scale per output; `block` is the
    edge of a square with one 4-byte scale (DeepSeek's FP8). Embeddings, norms, routers and biases stay as they are.
    """

    method: QuantizationMethod
    bits: int
    group: int | None = None
    zero_points: bool = False
    group_index: bool = False
    block: int | None = None
    head: bool = False
    """Whether the output head is quantized as well; it seldom is."""
    attention: bool = True
    """Whether attention matrices are quantized; some mixtures of experts keep them."""
