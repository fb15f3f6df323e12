"""Bytes of a tensor as a server holds it: plain, or quantized with what is stored beside it (docs/memory.md)."""

from gaudi_runtime.catalog.models.quantization import Quantization
from gaudi_runtime.catalog.models.tensors import Role, Tensor

SCALE_BYTES = 2
BLOCK_SCALE_BYTES = 4
INDEX_BYTES = 4


def stored_bytes(tensor: Tensor, dtype_bytes: int, quantization: Quantization | None) -> int:
    """Bytes of all copies. `dtype_bytes` is that of what is not quantized."""
    if quantization is None or not _quantized(tensor.role, quantization):
        return tensor.parameters * dtype_bytes
    return tensor.copies * _matrix_bytes(tensor.outputs, tensor.inputs, quantization)


def _quantized(role: Role, quantization: Quantization) -> bool:
    if role is Role.ATTENTION:
        return quantization.attention
    return role in (Role.FEED_FORWARD, Role.EXPERT) or (role is Role.HEAD and quantization.head)


def _matrix_bytes(outputs: int, inputs: int, quantization: Quantization) -> int:
    return -(-outputs * inputs * quantization.bits // 8) + _beside(outputs, inputs, quantization)


def _beside(outputs: int, inputs: int, quantization: Quantization) -> int:
    """Scales, zero points, and GPTQ's 4-byte group number of every input."""
    if quantization.block is not None:
        return BLOCK_SCALE_BYTES * -(-outputs // quantization.block) * -(-inputs // quantization.block)
    groups = -(-inputs // quantization.group) if quantization.group else 1
    zeros = -(-groups * outputs * quantization.bits // 8) if quantization.zero_points else 0
    index = INDEX_BYTES * inputs if quantization.group_index else 0
    return SCALE_BYTES * groups * outputs + zeros + index
