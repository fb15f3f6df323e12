"""Sampling of the next token by the torch engine: temperature, top_k, top_p and seeds."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.engines.torch.sampler import batch_settings, choose_tokens, random_number

CPU = torch.device("cpu")
LOGITS = torch.randn(1, 40, generator=torch.Generator().manual_seed(0)) * 3


def sample(params: SamplingParams, number: float) -> int:
    return int(choose_tokens(LOGITS, batch_settings([(params, number)], 1, CPU)))


def reachable(params: SamplingParams) -> set[int]:
    return {sample(params, step / 2000) for step in range(2000)}


def test_temperature_zero_selects_the_best_token() -> None:
    assert reachable(SamplingParams(temperature=0.0)) == {int(LOGITS.argmax())}


def test_top_k_keeps_the_k_best() -> None:
    assert reachable(SamplingParams(temperature=2.0, top_k=3)) == set(LOGITS.topk(3).indices[0].tolist())


def test_tiny_top_p_keeps_only_the_best_token() -> None:
    assert reachable(SamplingParams(temperature=2.0, top_p=1e-6)) == {int(LOGITS.argmax())}


def test_filters_keep_the_same_tokens_as_transformers() -> None:
    scores = LOGITS
    for warper in (TemperatureLogitsWarper(1.5), TopKLogitsWarper(20), TopPLogitsWarper(0.8)):
        scores = warper(torch.zeros(1, 1, dtype=torch.long), scores)
    left = set(scores[0].isfinite().nonzero().flatten().tolist())
    assert reachable(SamplingParams(temperature=1.5, top_k=20, top_p=0.8)) <= left
    assert len(left) < 20


def test_frequencies_follow_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    rows = [(SamplingParams(), random_number(seed, 0)) for seed in range(4000)]
    tokens = choose_tokens(logits.expand(4000, 3), batch_settings(rows, 4000, CPU))
    shares = tokens.bincount(minlength=3) / 4000
    assert torch.allclose(shares, logits[0].softmax(-1), atol=0.03)


@given(st.floats(0, 2), st.floats(0, 1), st.integers(0, 100), st.integers(0, 2**24 - 1), st.integers(0, 2**31))
def test_token_is_always_among_the_top_k(temperature: float, top_p: float, top_k: int, number: int, seed: int) -> None:
    logits = torch.randn(1, 40, generator=torch.Generator().manual_seed(seed)) * 20
    params = SamplingParams(temperature=temperature, top_p=top_p, top_k=top_k)
    token = int(choose_tokens(logits, batch_settings([(params, number / 2**24)], 1, CPU)))
    rank = int((logits > logits[0, token]).sum())
    assert rank < (top_k or 40)


def test_padding_rows_do_not_change_the_token() -> None:
    row = (SamplingParams(seed=1), 0.7)
    alone = choose_tokens(LOGITS, batch_settings([row], 1, CPU))
    padded = choose_tokens(LOGITS.expand(4, 40), batch_settings([row], 4, CPU))
    assert alone[0] == padded[0]


def test_sampling_tensors_of_a_greedy_batch_are_none() -> None:
    assert batch_settings([(SamplingParams(temperature=0), 0.5)] * 3, 4, CPU) is None


def test_draw_depends_on_seed_and_position() -> None:
    draws = {random_number(seed, index) for seed in range(30) for index in range(30)}
    assert len(draws) == 900
    assert all(0 <= number < 1 for number in draws)
    assert random_number(3, 4) == random_number(3, 4)
