"""Fused attention: whole, and in slices that the plugin combines."""

from typing import Any

import torch
import torch.nn.functional as F

LEAST = -1e30
"""The logit of masked positions. Minus infinity would result in NaN for rows that are completely masked."""


class FusedSDPA:
    @staticmethod
    def apply(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        softmax_mode: str = "None",
        recompute_mode: Any = None,
        valid_seq_len: torch.Tensor | None = None,
        seq_padding_type: str = "left",
        *_: Any,
    ) -> torch.Tensor:
        """Compute attention. The padding is at the end of each sequence, where the causal mask hides the padding."""
        assert valid_seq_len is None or seq_padding_type == "right"
        shared = q.shape[-3] != k.shape[-3]
        return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=shared)


def is_gqa(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Return True if several query heads share one key head."""
    return q.shape[1] != k.shape[1]


def gqa_input_reshape_fwd(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> Any:
    """Move query heads that share a key head into a separate dimension."""
    heads = k.shape[1]
    grouped = q.unflatten(1, (heads, q.shape[1] // heads))
    return grouped, k.unsqueeze(2), v.unsqueeze(2), None if mask is None else mask.unsqueeze(2)


def gqa_output_reshape(x: torch.Tensor) -> torch.Tensor:
    """Merge the separated heads into one dimension."""
    return x.flatten(1, 2)


@torch.library.custom_op("hpu::sdpa_recomp_fwd", mutates_args=())
def sdpa_recomp_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    scale: float,
    causal: bool,
    backward: bool,
    softmax_mode: str,
    valid: torch.Tensor | None,
    padding: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the attention and, for each row, the largest logit and the inverse of the sum of exponentials."""
    logits = (q.float() @ k.float().transpose(-1, -2)) * scale
    if mask is not None:
        logits = logits + mask
    most = logits.amax(dim=-1, keepdim=True).clamp(min=LEAST)
    weights = (logits - most).exp()
    total = weights.sum(dim=-1, keepdim=True).clamp(min=1 / -LEAST)
    return (weights / total) @ v.float(), most, 1 / total


@sdpa_recomp_fwd.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = (*q.shape[:-1], 1)
    return tuple(torch.empty(size, device=q.device) for size in ((*q.shape[:-1], v.shape[-1]), rows, rows))  # type: ignore[return-value]
