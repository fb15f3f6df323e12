"""The cost of a shape, and the bytes and seconds of its graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.catalog.cards import GAUDI2_RATES
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import price_in_bytes, price_in_seconds, typical_cost

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
SHAPES = st.builds(Bucket, st.integers(1, 64), st.integers(1, 4096), st.integers(0, 64))


def test_graph_bytes_scale_with_prompt_tokens_and_decode_sequences() -> None:
    price = price_in_bytes(block_size=128)
    per_token, per_sequence = GAUDI2_RATES.prompt_graph_bytes_per_token, GAUDI2_RATES.decode_graph_bytes_per_sequence
    assert price(PROMPT, Bucket(2, 256, 3)) == per_token.value * 2 * (256 + 3 * 128)
    assert price(DECODE, Bucket(8, 1, 90)) == per_sequence.value * 8


def test_warmup_seconds_are_the_sum_of_compile_and_capture() -> None:
    shape = Bucket(2, 256, 3)
    assert price_in_seconds(PROMPT, shape) == pytest.approx(13 / 24 + 7 / 15)
    assert price_in_seconds(DECODE, shape) == pytest.approx(16 / 48 + 14 / 48)


@given(phase=st.sampled_from(BucketPhase), shape=SHAPES, more=st.tuples(*[st.integers(0, 9)] * 3))
def test_cost_never_falls_when_a_shape_grows(phase: BucketPhase, shape: Bucket, more: tuple[int, int, int]) -> None:
    cost = typical_cost(128)
    grown = Bucket._make(size + extra for size, extra in zip(shape, more, strict=True))
    assert cost(phase, grown) >= cost(phase, shape)
