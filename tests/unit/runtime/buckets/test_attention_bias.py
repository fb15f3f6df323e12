"""Prompt buckets whose attention bias the fused kernel cannot index."""

import pytest

from gaudi_runtime.buckets.attention_bias import (
    MOST_PLANE_BYTES,
    FusedAttentionBias,
    bias_plane_bytes,
    largest_unindexable_bias,
    most_tokens_with_indexable_bias,
)
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_kv_blocks
from gaudi_runtime.contract.bucketing import BucketingAttentionSlices, Limits

BF16 = FusedAttentionBias()
SLICED = FusedAttentionBias(sliced_from=8192)


def limits(length: int, block_size: int = 128) -> Limits:
    return Limits(max_model_len=length, max_num_seqs=1, max_num_batched_tokens=length, block_size=block_size)


def test_plane_measured_as_clean_on_gaudi3_is_indexed() -> None:
    assert bias_plane_bytes(Bucket(1, 8192, 959), 128, BF16) == 2_145_386_496
    assert largest_unindexable_bias([Bucket(1, 8192, 959)], 128, BF16) is None


def test_plane_measured_as_nan_on_gaudi3_is_not_indexed() -> None:
    assert largest_unindexable_bias([Bucket(1, 8192, 960)], 128, BF16) == Bucket(1, 8192, 960)


def test_bytes_of_a_bias_plane_ignore_the_batch_size() -> None:
    assert bias_plane_bytes(Bucket(4, 4096, 992), 128, BF16) == bias_plane_bytes(Bucket(1, 4096, 992), 128, BF16)


def test_prompt_without_context_has_no_bias() -> None:
    assert bias_plane_bytes(Bucket(1, 131072, 0), 128, BF16) == 0


def test_bias_of_four_bytes_reaches_the_limit_earlier() -> None:
    assert largest_unindexable_bias([Bucket(1, 4096, 992)], 128, FusedAttentionBias(element_bytes=4)) == Bucket(
        1, 4096, 992
    )


def test_slices_of_a_single_prompt_are_indexed() -> None:
    assert largest_unindexable_bias([Bucket(1, 8192, 960)], 128, SLICED) is None


def test_batch_of_two_prompts_is_not_sliced() -> None:
    assert largest_unindexable_bias([Bucket(2, 8192, 960)], 128, SLICED) == Bucket(2, 8192, 960)


def test_prompt_below_the_threshold_is_not_sliced() -> None:
    late = FusedAttentionBias(sliced_from=131_073)
    assert largest_unindexable_bias([Bucket(1, 8192, 960)], 128, late) == Bucket(1, 8192, 960)


WINDOWED = FusedAttentionBias(windowed=True)


def test_window_of_some_layers_has_a_bias_without_a_context() -> None:
    assert bias_plane_bytes(Bucket(1, 32640, 0), 128, WINDOWED) == 32640 * 32640 * 2
    assert largest_unindexable_bias([Bucket(1, 32640, 0), Bucket(1, 32768, 0)], 128, WINDOWED) == Bucket(1, 32768, 0)


def test_padding_aware_slices_need_a_context() -> None:
    padded = FusedAttentionBias(sliced_from=8192, windowed=True)
    assert largest_unindexable_bias([Bucket(1, 32768, 0)], 128, padded) == Bucket(1, 32768, 0)


@pytest.mark.parametrize(("query", "biased"), [(32768, False), (32769, True), (4096, True)])
def test_prompt_of_whole_window_slices_has_no_bias(query: int, biased: bool) -> None:
    sliced = FusedAttentionBias(windowed=True, window_slices=BucketingAttentionSlices(tokens=1024, from_tokens=8192))
    assert sliced.has_bias(Bucket(1, query, 0)) is biased


def test_bucket_with_the_largest_unindexable_plane_is_returned() -> None:
    buckets = [Bucket(1, 8192, 960), Bucket(1, 16384, 960), Bucket(1, 128, 1023)]
    assert largest_unindexable_bias(buckets, 128, BF16) == Bucket(1, 16384, 960)


def test_empty_phase_has_no_bucket() -> None:
    assert largest_unindexable_bias([], 128, BF16) is None


@pytest.mark.parametrize("block_size", [16, 128, 528])
@pytest.mark.parametrize("length", [16_384, 131_072, 1_048_576])
def test_advised_tokens_are_the_most_blocks_below_the_limit(length: int, block_size: int) -> None:
    asked = limits(length, block_size)
    context, most = most_context_kv_blocks(asked), most_tokens_with_indexable_bias(asked, BF16)
    assert bias_plane_bytes(Bucket(1, most, context), block_size, BF16) < MOST_PLANE_BYTES
    assert bias_plane_bytes(Bucket(1, most + block_size, context), block_size, BF16) >= MOST_PLANE_BYTES


def test_advised_tokens_are_zero_if_one_block_is_too_large() -> None:
    assert most_tokens_with_indexable_bias(limits(16_777_216), BF16) == 0
