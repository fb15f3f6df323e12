"""Rotary embedding and attention, implemented with PyTorch's own operations."""

from enum import Enum
from typing import Any

import torch

from habana_frameworks.torch.hpex.kernels.FusedSDPA import FusedSDPA


class RotaryPosEmbeddingMode(Enum):
    BLOCKWISE = 0
    PAIRWISE = 1


def apply_rotary_pos_emb(
    p: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: Any = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> torch.Tensor:
    """Apply the rotary embedding to the halves or to adjacent pairs of each head."""
    if mode is RotaryPosEmbeddingMode.BLOCKWISE:
        low, high = p.chunk(2, dim=-1)
        rotated = torch.cat((-high, low), dim=-1)
    else:
        rotated = torch.stack((-p[..., 1::2], p[..., ::2]), dim=-1).flatten(-2)
    return p * cos.to(p.dtype) + rotated * sin.to(p.dtype)
