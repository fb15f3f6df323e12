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
    random_numbers: Tensor


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
    padded_rows = rows + [(SamplingParams(temperature=0), 0.0)] * (batch_size - len(rows))
    row_params, random_numbers = [params for params, _ in padded_rows], [number for _, number in padded_rows]
    return SamplerSettings(
        torch.tensor([params.temperature for params in row_params], dtype=torch.float32, device=device),
        torch.tensor([params.top_p for params in row_params], dtype=torch.float32, device=device),
        torch.tensor([params.top_k for params in row_params], device=device),
        torch.tensor(random_numbers, dtype=torch.float32, device=device),
    )


def choose_tokens(logits: Tensor, settings: SamplerSettings | None) -> Tensor:
    """Return token ids (B) for logits (B, vocabulary): apply temperature, top-k and top-p, as transformers does."""
    best = logits.argmax(-1)
    if settings is None:
        return best
    scaled_logits = logits / settings.temperature.clamp_min(COLDEST)[:, None]
    sorted_logits, sorted_tokens = scaled_logits.sort(dim=-1, descending=True, stable=True)
    cumulative_sums = _filter_probabilities(sorted_logits, settings).cumsum(-1)
    target = settings.random_numbers[:, None] * cumulative_sums[:, -1:]
    rank = (cumulative_sums <= target).sum(-1, keepdim=True)
    # Because of rounding, the target may be larger than the last sum. Limit the rank, so that no token outside top-k or
    # top-p is chosen.
    last_kept = (cumulative_sums < cumulative_sums[:, -1:]).sum(-1, keepdim=True)
    sampled = sorted_tokens.gather(-1, torch.minimum(rank, last_kept)).squeeze(-1)
    return torch.where(settings.temperature > 0, sampled, best)


def _filter_probabilities(sorted_logits: Tensor, settings: SamplerSettings) -> Tensor:
    """Return the probabilities of sorted logits, with zeros outside top-k and top-p. The best token is always kept."""
    ranks = torch.arange(sorted_logits.shape[-1], device=sorted_logits.device)
    outside_top_k = (ranks >= settings.top_k[:, None]) & (settings.top_k > 0)[:, None]
    probabilities = sorted_logits.masked_fill(outside_top_k, float("-inf")).softmax(-1)
    preceding_sum = probabilities.cumsum(-1) - probabilities
    return probabilities.masked_fill((preceding_sum >= settings.top_p[:, None]) & (ranks > 0), 0)
