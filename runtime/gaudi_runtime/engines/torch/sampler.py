"""The sampler, which selects tokens from logits."""

from hashlib import blake2b
from typing import NamedTuple

import torch
from torch import Tensor

from gaudi_runtime.engine_protocol.engine import SamplingParams

# A float32 represents every integer of at most 24 bits exactly.
DRAW_BITS = 24
COLDEST = 1e-5


class SamplerSettings(NamedTuple):
    """The sampler settings of each row of a batch; every tensor has shape (B)."""

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    draws: Tensor


def random_number(seed: int, index: int) -> float:
    """Return a random number in [0, 1) to sample the token with this index in an answer."""
    # The number depends only on the seed and the token's index. The same request therefore gets the same answer in any
    # batch, after a preemption and on any device.
    digest = blake2b(f"{seed} {index}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> (64 - DRAW_BITS)) / (1 << DRAW_BITS)


def batch_settings(
    rows: list[tuple[SamplingParams, float]], batch_size: int, device: torch.device
) -> SamplerSettings | None:
    """Return the settings and random numbers of a batch, padded with greedy rows; None if all rows are greedy."""
    if all(params.temperature == 0 for params, _ in rows):
        return None
    padded = rows + [(SamplingParams(temperature=0), 0.0)] * (batch_size - len(rows))
    settings, draws = [params for params, _ in padded], [number for _, number in padded]
    return SamplerSettings(
        torch.tensor([params.temperature for params in settings], dtype=torch.float32, device=device),
        torch.tensor([params.top_p for params in settings], dtype=torch.float32, device=device),
        torch.tensor([params.top_k for params in settings], device=device),
        torch.tensor(draws, dtype=torch.float32, device=device),
    )


def choose_tokens(logits: Tensor, wanted: SamplerSettings | None) -> Tensor:
    """Return token ids (B) for logits (B, vocabulary): apply temperature, top-k and top-p, as transformers does."""
    best = logits.argmax(-1)
    if wanted is None:
        return best
    scaled = logits / wanted.temperature.clamp_min(COLDEST)[:, None]
    ordered, tokens = scaled.sort(dim=-1, descending=True, stable=True)
    weights = _filter_probabilities(ordered, wanted).cumsum(-1)
    target = wanted.draws[:, None] * weights[:, -1:]
    rank = (weights <= target).sum(-1, keepdim=True)
    # Because of rounding, the target may be larger than the last sum. Limit the rank, so that no token outside top-k or
    # top-p is chosen.
    last_kept = (weights < weights[:, -1:]).sum(-1, keepdim=True)
    sampled = tokens.gather(-1, torch.minimum(rank, last_kept)).squeeze(-1)
    return torch.where(wanted.temperature > 0, sampled, best)


def _filter_probabilities(ordered: Tensor, wanted: SamplerSettings) -> Tensor:
    """Return the probabilities of sorted logits, with zeros outside top-k and top-p. The best token is always kept."""
    ranks = torch.arange(ordered.shape[-1], device=ordered.device)
    beyond = (ranks >= wanted.top_k[:, None]) & (wanted.top_k > 0)[:, None]
    chances = ordered.masked_fill(beyond, float("-inf")).softmax(-1)
    before = chances.cumsum(-1) - chances
    return chances.masked_fill((before >= wanted.top_p[:, None]) & (ranks > 0), 0)
