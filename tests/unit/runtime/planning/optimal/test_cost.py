"""The cost of a shape: its tokens, its time by the roofline, and the bytes and seconds of its graph."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.catalog.cards import GAUDI2_RATES
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import Cost, Roofline, price_in_bytes, price_in_seconds, token_cost

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
ROOFLINE = Roofline(
    block_size=128,
    matmul_weights=8e9,
    attention_width=32 * 32 * 128,
    weight_bytes=16e9,
    kv_bytes_per_token=131_072,
    operations_per_second=432e12,
    bytes_per_second=2.45e12,
)
SHAPES = st.builds(Bucket, st.integers(1, 64), st.integers(1, 4096), st.integers(0, 64))


def test_cost_of_a_prompt_is_its_new_and_cached_tokens() -> None:
    assert token_cost(128)(PROMPT, Bucket(2, 256, 3)) == 2 * (256 + 3 * 128)


def test_cost_of_a_decode_step_is_sequences_plus_block_tokens() -> None:
    assert token_cost(128)(DECODE, Bucket(4, 1, 10)) == 4 + 10 * 128


def test_roofline_of_small_decode_batch_is_time_to_read_weights() -> None:
    assert ROOFLINE(DECODE, Bucket(1, 1, 1)) == pytest.approx(16e9 / 2.45e12, rel=0.01)


def test_roofline_of_a_long_prompt_is_bound_by_compute() -> None:
    arithmetic = (2 * 8e9 * 4096 + 4 * 32 * 32 * 128 * 4096 * 4096) / 432e12
    assert ROOFLINE(PROMPT, Bucket(1, 4096, 0)) == pytest.approx(arithmetic)


ARITHMETIC, READING = replace(ROOFLINE, bytes_per_second=inf), replace(ROOFLINE, operations_per_second=inf)
SEQUENCES = {PROMPT: 3, DECODE: 1}


@pytest.mark.parametrize("phase", SEQUENCES)
def test_compute_seconds_include_weights_and_attended_tokens(phase: BucketPhase) -> None:
    """Context counts for each sequence of a prompt batch. Blocks count once for the whole decode batch."""
    tokens, cached = 3 * 40, SEQUENCES[phase] * 5 * 128
    operations = 2 * 8e9 * tokens + 4 * 32 * 32 * 128 * (cached * 40 + tokens * 40)
    assert ARITHMETIC(phase, Bucket(3, 40, 5)) == pytest.approx(operations / 432e12)


@pytest.mark.parametrize("phase", SEQUENCES)
def test_read_seconds_include_weights_and_cached_tokens(phase: BucketPhase) -> None:
    read = 16e9 + 131_072 * (SEQUENCES[phase] * 5 * 128 + 3 * 40)
    assert READING(phase, Bucket(3, 40, 5)) == pytest.approx(read / 2.45e12)


def test_graph_bytes_scale_with_prompt_tokens_and_decode_sequences() -> None:
    price = price_in_bytes(block_size=128)
    per_token, per_sequence = GAUDI2_RATES.prompt_graph_bytes_per_token, GAUDI2_RATES.decode_graph_bytes_per_sequence
    assert price(PROMPT, Bucket(2, 256, 3)) == per_token.value * 2 * (256 + 3 * 128)
    assert price(DECODE, Bucket(8, 1, 90)) == per_sequence.value * 8


def test_warmup_seconds_are_the_sum_of_compile_and_capture() -> None:
    shape = Bucket(2, 256, 3)
    assert price_in_seconds(PROMPT, shape) == pytest.approx(13 / 24 + 7 / 15)
    assert price_in_seconds(DECODE, shape) == pytest.approx(16 / 48 + 14 / 48)


@pytest.mark.parametrize("cost", [token_cost(128), ROOFLINE])
@given(phase=st.sampled_from(BucketPhase), shape=SHAPES, more=st.tuples(*[st.integers(0, 9)] * 3))
def test_cost_never_falls_when_a_shape_grows(
    cost: Cost, phase: BucketPhase, shape: Bucket, more: tuple[int, int, int]
) -> None:
    grown = Bucket._make(size + extra for size, extra in zip(shape, more, strict=True))
    assert cost(phase, grown) >= cost(phase, shape)
