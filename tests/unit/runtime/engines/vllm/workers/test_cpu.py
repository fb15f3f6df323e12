"""The conversion of a bucket to a step of vLLM's scheduler, within the sequence length and existing blocks."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.cpu import StepShape, block_table, step_shape

BUCKETS = st.builds(Bucket, st.integers(1, 64), st.integers(1, 4096), st.integers(0, 512))
BLOCK_SIZES = st.sampled_from([1, 16, 32, 128])
LENGTHS = st.integers(2, 8192)


def tables(shape: StepShape, block_size: int, blocks: int) -> list[list[int]]:
    return [block_table(shape, row, block_size, blocks) for row in range(shape.requests)]


@pytest.mark.parametrize(
    ("phase", "bucket", "shape"),
    [
        (BucketPhase.PROMPT, Bucket(2, 256, 0), StepShape(2, 256, 0)),
        (BucketPhase.PROMPT, Bucket(2, 256, 3), StepShape(2, 256, 384)),
        (BucketPhase.PROMPT, Bucket(1, 1024, 0), StepShape(1, 1023, 0)),
        (BucketPhase.PROMPT, Bucket(1, 512, 8), StepShape(1, 512, 511)),
        (BucketPhase.DECODE, Bucket(1, 1, 4), StepShape(1, 1, 511)),
        (BucketPhase.DECODE, Bucket(4, 1, 8), StepShape(4, 1, 255)),
        (BucketPhase.DECODE, Bucket(4, 1, 2), StepShape(4, 1, 127)),
        (BucketPhase.DECODE, Bucket(1, 1, 64), StepShape(1, 1, 1022)),
    ],
)
def test_step_of_a_bucket_has_the_largest_possible_shape(phase: BucketPhase, bucket: Bucket, shape: StepShape) -> None:
    """A block has 128 tokens, and a sequence has at most 1024 tokens."""
    assert step_shape(phase, bucket, 128, 1024) == shape


@settings(max_examples=60)
@given(st.sampled_from(BucketPhase), BUCKETS, BLOCK_SIZES, LENGTHS)
def test_step_and_sampled_token_fit_the_model_length(
    phase: BucketPhase, bucket: Bucket, block_size: int, max_model_len: int
) -> None:
    shape = step_shape(phase, bucket, block_size, max_model_len)
    assert shape.query >= 1
    assert shape.context >= 0
    assert shape.query + shape.context + 1 <= max_model_len


@settings(max_examples=60)
@given(st.sampled_from(BucketPhase), BUCKETS, BLOCK_SIZES, LENGTHS, st.integers(2, 600))
def test_block_tables_use_only_existing_unreserved_blocks(
    phase: BucketPhase, bucket: Bucket, block_size: int, max_model_len: int, blocks: int
) -> None:
    shape = step_shape(phase, bucket, block_size, max_model_len)
    assert all(1 <= each < blocks for each in chain(*tables(shape, block_size, blocks)))


@settings(max_examples=60)
@given(st.sampled_from(BucketPhase), BUCKETS, BLOCK_SIZES, LENGTHS)
def test_table_has_exactly_the_blocks_for_every_token(
    phase: BucketPhase, bucket: Bucket, block_size: int, max_model_len: int
) -> None:
    shape = step_shape(phase, bucket, block_size, max_model_len)
    room = len(block_table(shape, 0, block_size, 600)) * block_size
    assert 0 <= room - (shape.query + shape.context) < block_size


@settings(max_examples=60)
@given(st.sampled_from(BucketPhase), BUCKETS, BLOCK_SIZES, LENGTHS)
def test_sequences_share_no_blocks_if_the_cache_suffices(
    phase: BucketPhase, bucket: Bucket, block_size: int, max_model_len: int
) -> None:
    shape = step_shape(phase, bucket, block_size, max_model_len)
    needed = shape.requests * len(block_table(shape, 0, block_size, 2))
    used = list(chain(*tables(shape, block_size, needed + 1)))
    assert len(set(used)) == len(used) == needed


@settings(max_examples=60)
@given(BUCKETS, BLOCK_SIZES, LENGTHS)
def test_decode_bucket_uses_at_most_its_blocks(bucket: Bucket, block_size: int, max_model_len: int) -> None:
    """If a bucket has fewer blocks than sequences, each sequence still has one block."""
    shape = step_shape(BucketPhase.DECODE, bucket, block_size, max_model_len)
    taken = sum(len(each) for each in tables(shape, block_size, 10_000))
    assert taken <= max(bucket.num_blocks, bucket.batch_size)
