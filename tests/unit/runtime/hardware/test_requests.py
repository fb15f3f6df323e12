"""The requests that a trial sends to an instance."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.hardware.requests import (
    ANSWER_TOKENS,
    MOST_LENGTHS,
    planned_request_prompts,
    request_concurrency_levels,
    request_quantile,
)
from tests.unit.runtime.configs import sim_config


def plan(*queries: int, context: int = 0) -> BucketPlan:
    return BucketPlan(tuple(Bucket(1, query, context) for query in queries), (Bucket(4, 1, 8),))


def lengths(*queries: int, blocks: int = 100, **limits: int) -> list[int]:
    return [len(prompt) for prompt in planned_request_prompts(plan(*queries), sim_config(**limits), blocks)]


def test_each_planned_query_length_is_requested() -> None:
    assert lengths(128, 256) == [128, 256]


def test_longest_prompt_leaves_room_for_its_answer() -> None:
    assert lengths(256, 512, max_model_len=512) == [256, 512 - ANSWER_TOKENS]


def test_requested_lengths_are_limited_to_max_num_batched_tokens() -> None:
    assert lengths(128, 512, max_num_batched_tokens=256) == [128, 256]


def test_no_prompt_is_longer_than_the_kv_cache() -> None:
    assert max(lengths(128, 512, blocks=2)) == 2 * 128 - ANSWER_TOKENS


def test_sample_of_many_lengths_includes_the_longest() -> None:
    asked = lengths(*range(1, 200))
    assert len(asked) <= MOST_LENGTHS + 1
    assert asked[-1] == 199


def test_buckets_with_context_are_not_requested() -> None:
    assert planned_request_prompts(plan(128, context=3), sim_config(), 100) == []


def test_concurrency_doubles_up_to_max_num_seqs() -> None:
    assert request_concurrency_levels(sim_config(max_num_seqs=4), [(1,) * 10], 100) == [1, 2, 4]


def test_kv_cache_limits_concurrent_requests() -> None:
    assert request_concurrency_levels(sim_config(max_num_seqs=4), [(1,) * 200], 4) == [1, 2]


def test_median_is_one_of_the_values() -> None:
    assert request_quantile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_median_of_no_values_is_none() -> None:
    assert request_quantile([], 0.5) is None
