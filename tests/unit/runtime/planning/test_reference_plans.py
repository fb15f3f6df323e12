"""Bucket lists printed by real servers (logs 000 to 004), reproduced from the settings in the same logs."""

import json
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import (
    Limits,
)
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.old_releases import UnifiedBucket, plan_1_22, plan_unified
from gaudi_runtime.planning.planner import make_plan
from tests.support.reference_logs import TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS
from tests.unit.runtime.planning.vectors import DATA

LOGS = json.loads((DATA / "reference_plans.json").read_text())


def rows(buckets: tuple[Any, ...]) -> list[list[int]]:
    return [list(bucket) for bucket in buckets]


def test_three_seeds_linear_plan_24_prompt_and_48_decode_buckets() -> None:
    plan = make_plan(TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS, kv_blocks=1519 * 128)
    assert [[bs, query] for bs, query, _ in plan.prompt] == LOGS["linear_prompt"]
    assert [[bs, length] for bs, _, length in plan.decode] == LOGS["linear_decode"]


def test_seed_000_sequences_of_412_tokens_are_padded_as_logged() -> None:
    plan = make_plan(TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS, kv_blocks=1519 * 128)
    assert plan.find(BucketPhase.PROMPT, 3, 412, 0) == Bucket(4, 512, 0)
    assert plan.find(BucketPhase.DECODE, 3, 1, 412) == Bucket(4, 1, 512)
    assert plan.find(BucketPhase.DECODE, 2, 1, 412) == Bucket(2, 1, 512)
    assert plan.find(BucketPhase.DECODE, 3, 1, 513) == Bucket(4, 1, 640)


def test_release_1_22_without_context_plans_36_prompt_42_decode_buckets() -> None:
    limits = Limits(max_model_len=4096, max_num_seqs=4, max_num_prefill_seqs=4, max_num_batched_tokens=8192)
    plan = plan_1_22(limits, kv_blocks=5746)
    assert rows(plan.prompt) == LOGS["release_1_22_prompt"]
    assert rows(plan.decode) == LOGS["release_1_22_decode"]


def test_release_1_22_with_prefix_caching_plans_every_context() -> None:
    limits = Limits(
        max_model_len=1024,
        max_num_seqs=4,
        max_num_batched_tokens=1024,
        contiguous_paged_attention=False,
        prefix_caching=True,
    )
    plan = plan_1_22(limits, kv_blocks=5781)
    assert rows(plan.prompt) == LOGS["release_1_22_context_prompt"]
    assert rows(plan.decode) == LOGS["release_1_22_context_decode"]


def test_seed_001_unified_plans_375_buckets() -> None:
    limits = Limits(max_model_len=1024, max_num_seqs=32, max_num_batched_tokens=2048)
    plan = plan_unified(limits, kv_blocks=5781)
    assert len(plan) == 375
    assert plan[:2] == (UnifiedBucket(8, 0, 0, 1), UnifiedBucket(8, 0, 8, 0))
    assert plan[-2:] == (UnifiedBucket(2048, 256, 2890, 1), UnifiedBucket(2048, 256, 5781, 1))
    assert list(plan) == sorted(set(plan))
