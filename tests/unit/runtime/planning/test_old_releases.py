"""Plans of old releases compared with their rules. test_reference_plans.py has the output of real servers."""

from itertools import product

import pytest

from gaudi_runtime.buckets.bucket_plan import DroppedBuckets, DropRule
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.old_releases import exponential_fill, plan_1_22, plan_unified, unified_values


@pytest.mark.parametrize(
    ("requested", "exact", "values"),
    [
        ((128, 128, 4096, 13), False, [128, 256, 384, 512, 640, 768, 896, 1024, 1408, 1792, 2304, 3072, 4096]),
        ((1, 1, 4, 9), False, [1, 2, 3, 4]),
        ((1, 1, 4, 1), False, [4]),
        ((1, 1, 5, 2), False, [1, 5]),
        ((2, 4, 30, 3), False, [4, 8, 32]),
        ((2, 4, 30, 3), True, [4, 8, 30]),
        ((4, 4, 9, 4), True, [4, 8, 9]),
        ((4, 4, 8, 4), False, [4, 8]),
        ((2, 1, 8, 7), False, [2, 3, 4, 5, 6, 7, 8]),
        ((2, 1, 19, 18), False, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
        ((1, 128, 769, 8), True, [128, 256, 384, 512, 640, 768, 769]),
    ],
)
def test_exponential_fill_moves_duplicates_to_free_multiples(
    requested: tuple[int, int, int, int], exact: bool, values: list[int]
) -> None:
    assert exponential_fill(*requested, ends_exact=exact) == values


def test_unified_alpha_values_double_up_to_the_maximum() -> None:
    assert unified_values(0, 32, 256) == [0, 8, 16, 32, 64, 128, 256]
    assert unified_values(8, 32, 256) == [8, 16, 32, 64, 128, 256]


CACHING = Limits(max_model_len=512, max_num_seqs=4, max_num_prefill_seqs=2, max_num_batched_tokens=512)
CACHING = CACHING.model_copy(update={"prefix_caching": True})


def test_release_1_22_plans_contexts_that_fit_the_token_budget() -> None:
    plan = plan_1_22(CACHING, kv_blocks=16)
    fitting = [
        (size, query, context)
        for size, query, context in product((1, 2), (128, 256, 384, 512), range(4))
        if query + 128 * context <= min(512, 512 // size)
    ]
    assert list(plan.prompt) == fitting


def test_release_1_22_reports_dropped_contexts_over_the_budget() -> None:
    """Two sequences have 256 tokens each. Of 4 + 3 + 2 + 1 contexts, 2 + 1 fit, and 7 are dropped."""
    assert plan_1_22(CACHING, kv_blocks=16).dropped == (
        DroppedBuckets(BucketPhase.PROMPT, DropRule.OVER_BUDGET_WITH_CONTEXT, 7),
    )


def test_release_1_22_plan_without_prompt_buckets_is_refused() -> None:
    with pytest.raises(PlanImpossible, match=r"^no prompt bucket is left: "):
        plan_1_22(CACHING.model_copy(update={"max_num_batched_tokens": 1}), kv_blocks=16)


def possible(query: int, shared: int, unique: int, causal: int, seqs: int) -> bool:
    """Return True if the batch can occur: no sequence has more than 256 tokens in shared blocks.

    At most `seqs` sequences share blocks, one per query token. If all sequences decode, each sequence has one token,
    and half as many sequences share blocks.
    """
    if causal:
        return query > 0 and shared * 128 // min(seqs, query) <= 256
    if not 0 < query <= seqs or shared + unique == 0:
        return False
    return shared == 0 or (query >= 2 and shared * 128 // (query // 2) <= 256)


@pytest.mark.parametrize(
    ("seqs", "queries", "shared", "unique"),
    [
        (8, [2, 4, 5, 8, 10, 20], [0, 2, 4, 8, 16], [0, 2, 4, 6, 8, 12, 25]),
        (6, [1, 3, 5, 6, 10, 20], [0, 1, 3, 6, 12], [0, 1, 3, 6, 12, 25]),
        (2, [0, 1, 2, 5, 10, 20], [0, 1, 2, 4], [0, 1, 2, 6, 12, 25]),
    ],
)
def test_unified_plan_is_the_product_of_possible_dimensions(
    seqs: int, queries: list[int], shared: list[int], unique: list[int]
) -> None:
    limits = Limits(max_model_len=256, max_num_seqs=seqs, max_num_batched_tokens=20)
    expected = [each for each in product(queries, shared, unique, (0, 1)) if possible(*each, seqs)]
    assert list(plan_unified(limits, kv_blocks=25)) == expected
