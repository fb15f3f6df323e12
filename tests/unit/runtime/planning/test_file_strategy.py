"""Plans of strategy File: buckets from a file follow the same rules as buckets from ranges."""

import pytest

from gaudi_runtime.buckets.bucket_plan import PlanDroppedBuckets, PlanDropRule
from gaudi_runtime.contract.bucketing import (
    BucketPolicy,
    Limits,
    Strategy,
)
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.planner import make_plan

LIMITS = Limits(max_model_len=2048, max_num_seqs=4, max_num_batched_tokens=2048, prefix_caching=True)


def file(text: str) -> BucketPolicy:
    return BucketPolicy(strategy=Strategy.FILE, file=text)


def test_file_buckets_are_split_by_query_length() -> None:
    plan = make_plan(file("(1, [256, 128], 0)\n(4, 1, 64)"), LIMITS, kv_blocks=64)
    assert plan.prompt == ((1, 128, 0), (1, 256, 0))
    assert plan.decode == ((4, 1, 64),)


def test_dropped_file_bucket_is_reported_with_its_line() -> None:
    plan = make_plan(file("(1, 128, 0)\n\n(1, 4096, 0)\n(1, 1, 8)"), LIMITS, kv_blocks=64)
    assert plan.warnings == (f"bucket file, line 3: (1, 4096, 0) was dropped: {PlanDropRule.QUERY_TOO_LONG}",)


def test_empty_file_is_refused() -> None:
    with pytest.raises(
        PlanImpossible, match=r"^the bucket file has no prompt bucket\. Add a line such as \(1, 128, 0\)$"
    ):
        make_plan(BucketPolicy(strategy=Strategy.FILE), LIMITS, kv_blocks=64)


def test_decode_buckets_of_a_file_are_filtered_and_limited() -> None:
    """Buckets with fewer blocks than sequences are dropped.

    In other buckets, the blocks are limited to the number that the sequences can use.
    """
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": False})
    plan = make_plan(file("(1, 128, 0)\n(4, 1, 3)\n(2, 1, 99)\n(4, 1, 4)"), limits, kv_blocks=64)
    assert plan.decode == ((2, 1, 32), (4, 1, 4))
    assert plan.dropped == (PlanDroppedBuckets(BucketPhase.DECODE, PlanDropRule.FEWER_BLOCKS_THAN_SEQUENCES, 1),)
    assert plan.warnings == (f"bucket file, line 2: (4, 1, 3) was dropped: {PlanDropRule.FEWER_BLOCKS_THAN_SEQUENCES}",)


def test_file_with_many_dropped_buckets_reports_a_bounded_number() -> None:
    text = "(1, 128, 0)\n(1, 1, 8)\n(1, range(2049, 2149), 0)"
    warnings = make_plan(file(text), LIMITS, kv_blocks=64).warnings
    assert len(warnings) == 21
    assert warnings[-1] == "bucket file: 80 more buckets were dropped"


def test_file_without_decode_buckets_is_refused() -> None:
    with pytest.raises(
        PlanImpossible, match=r"the bucket file has no decode bucket\. Add a line such as \(1, 1, 128\)"
    ):
        make_plan(file("(1, 128, 0)"), LIMITS, kv_blocks=64)


def policy_with_steps(sizes: int, steps: int) -> BucketPolicy:
    """Return a file whose largest batch size has `steps` buckets. Every batch size therefore has `steps` steps."""
    lines = [f"({sizes}, {steps - at + 1}, {at})" for at in range(steps)]
    return file("\n".join([*lines, f"(range(1, {sizes}), 2, 0)", "(1, 1, 8)"]))


WIDE = Limits(
    max_model_len=4096,
    max_num_seqs=2048,
    max_num_prefill_seqs=2048,
    max_num_batched_tokens=16_777_216,
    block_size=1,
    prefix_caching=True,
)


def test_file_with_too_many_steps_is_refused_by_its_field() -> None:
    with pytest.raises(
        PlanImpossible, match=r"^bucketing\.file: the search for gaps between the buckets of 501 prompt batch sizes"
    ):
        make_plan(policy_with_steps(501, 500), WIDE, kv_blocks=64)


def test_file_with_as_many_steps_as_allowed_is_planned() -> None:
    assert len(make_plan(policy_with_steps(500, 500), WIDE, kv_blocks=64).prompt) == 500 + 499


def test_batch_sizes_above_max_num_prefill_seqs_add_no_steps() -> None:
    limits = WIDE.model_copy(update={"max_num_prefill_seqs": 100})
    assert len(make_plan(policy_with_steps(501, 500), limits, kv_blocks=64).prompt) == 500 + 500
