import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.optimal.cost import Cost, Roofline, token_cost
from gaudi_runtime.contract.report import BucketPhase

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


def test_prompt_tokens_are_new_ones_and_those_of_cached_context() -> None:
    assert token_cost(128)(PROMPT, Bucket(2, 256, 3)) == 2 * (256 + 3 * 128)


def test_decode_tokens_are_one_sequence_and_those_of_kv_blocks() -> None:
    assert token_cost(128)(DECODE, Bucket(4, 1, 10)) == 4 + 10 * 128


def test_roofline_of_small_decode_batch_is_time_to_read_weights() -> None:
    assert ROOFLINE(DECODE, Bucket(1, 1, 1)) == pytest.approx(16e9 / 2.45e12, rel=0.01)


def test_roofline_of_a_long_prompt_is_its_arithmetic() -> None:
    arithmetic = (2 * 8e9 * 4096 + 4 * 32 * 32 * 128 * 4096 * 4096) / 432e12
    assert ROOFLINE(PROMPT, Bucket(1, 4096, 0)) == pytest.approx(arithmetic)


@pytest.mark.parametrize("cost", [token_cost(128), ROOFLINE])
@given(phase=st.sampled_from(BucketPhase), shape=SHAPES, more=st.tuples(*[st.integers(0, 9)] * 3))
def test_cost_never_falls_when_a_shape_grows(
    cost: Cost, phase: BucketPhase, shape: Bucket, more: tuple[int, int, int]
) -> None:
    grown = Bucket._make(size + extra for size, extra in zip(shape, more, strict=True))
    assert cost(phase, grown) >= cost(phase, shape)
