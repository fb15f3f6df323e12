"""The precheck of a bucket policy agrees with the planner, and counts instead of planning."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import BucketsMissing, PlanImpossible
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.precheck import precheck

LIMITS = Limits(max_model_len=8192, max_num_seqs=64, max_num_prefill_seqs=4, max_num_batched_tokens=8192, gapless=True)
VALUES = st.sampled_from([0, 1, 3, 64, 200, 4000])
RANGE = st.fixed_dictionaries(
    {}, optional={"min": VALUES, "step": st.sampled_from([1, 2, 64, 256]), "max": st.sampled_from([5, 500, 4000])}
)
POLICIES = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(["exponential", "linear", "paddingAware"]),
        "prompt": st.fixed_dictionaries({"batchSize": RANGE, "query": RANGE, "context": RANGE}),
        "decode": st.fixed_dictionaries({"batchSize": RANGE, "blocks": RANGE}),
    }
)


def check(policy: dict[str, Any], limits: Limits = LIMITS, kv_blocks: int = 1000, *, gaps: bool = True) -> None:
    precheck(BucketPolicy.model_validate(policy), limits, kv_blocks, refuses_gaps=gaps)


def file(*lines: str) -> dict[str, Any]:
    return {"strategy": "file", "file": "\n".join(lines)}


def optimal(**fields: Any) -> dict[str, Any]:
    return {"strategy": "optimal", "optimal": fields}


def is_refused(work: Any, *arguments: Any) -> bool:
    try:
        work(*arguments)
    except PlanImpossible:
        return True
    return False


CHOICES = st.fixed_dictionaries(
    {
        "contiguous_paged_attention": st.booleans(),
        "prefix_caching": st.booleans(),
        "block_size": st.sampled_from([16, 128]),
    }
)
KV_BLOCKS = st.sampled_from([3, 500, 3000])


@given(POLICIES, CHOICES, KV_BLOCKS)
@settings(max_examples=150, deadline=None)
def test_precheck_refuses_ranges_that_the_planner_refuses(
    policy: dict[str, Any], choices: dict[str, Any], kv_blocks: int
) -> None:
    limits = LIMITS.model_copy(update=choices)
    read = BucketPolicy.model_validate(policy)
    assert is_refused(check, policy, limits, kv_blocks) == is_refused(make_plan, read, limits, kv_blocks)


@given(POLICIES, CHOICES, KV_BLOCKS)
@settings(max_examples=40, deadline=None)
def test_precheck_of_plans_with_gaps_accepts_no_impossible_plan(
    policy: dict[str, Any], choices: dict[str, Any], kv_blocks: int
) -> None:
    limits = LIMITS.model_copy(update={**choices, "gapless": False})
    read = BucketPolicy.model_validate(policy)
    # The precheck also counts buckets beyond maxModelLen, so it refuses some possible plans of over 100,000 buckets.
    assert is_refused(check, policy, limits, kv_blocks) or not is_refused(make_plan, read, limits, kv_blocks)


ONE_STEP = {"min": 1, "step": 1}
CONTEXT = {"prefix_caching": True}

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "contradictory range": (
        {"strategy": "linear", "prompt": {"query": {"min": 300, "max": 200}}},
        {},
        "bucketing.prompt.query: min 300 is above max 200",
    ),
    "too many values": (
        {"strategy": "linear", "decode": {"blocks": {**ONE_STEP, "max": 20_000}}},
        {"contiguous_paged_attention": False},
        "bucketing.decode.blocks: a step of 1 up to 20000 gives more than 10000 values",
    ),
    "too many prompt buckets": (
        {"strategy": "linear", "prompt": {"query": {**ONE_STEP, "max": 2000}, "context": {"step": 1}}},
        CONTEXT | {"block_size": 16},
        "the plan has more than 250000 prompt buckets. Choose larger steps in bucketing.prompt",
    ),
    "too many decode buckets": (
        {"strategy": "linear", "decode": {"batchSize": ONE_STEP, "blocks": {**ONE_STEP, "max": 9000}}},
        {"max_num_seqs": 256, "contiguous_paged_attention": False},
        "the plan has more than 250000 decode buckets. Choose larger steps in bucketing.decode",
    ),
    "too many combinations": (
        {"strategy": "linear", "prompt": {"batchSize": ONE_STEP, "query": {**ONE_STEP, "max": 9999}}},
        {"max_num_prefill_seqs": 4096, "max_num_batched_tokens": 10_000},
        "buckets, but at most 5000000 are allowed",
    ),
    "no prompt within the limits": (
        {"strategy": "linear", "prompt": {"batchSize": {"min": 4, "step": 4}, "query": {"min": 4096, "step": 4096}}},
        {},
        "no prompt bucket is within the limits",
    ),
    "no block count within the limits": (
        {"strategy": "linear", "decode": {"blocks": {"min": 4000, "step": 64, "max": 4000}}},
        {"gapless": False, "contiguous_paged_attention": False},
        "no decode bucket is within the limits",
    ),
    "no block count for a batch": (
        {
            "strategy": "linear",
            "decode": {"batchSize": {"min": 64, "step": 64, "max": 64}, "blocks": {"min": 1, "step": 1, "max": 5}},
        },
        {"gapless": False, "contiguous_paged_attention": False},
        "no decode bucket is within the limits",
    ),
    "wrong line": (file("(1, 128"), {}, "bucket file, line 1: the line is not a tuple"),
    "file without decode": (file("(1, 8192, 0)"), {}, "the bucket file has no decode bucket"),
    "wrong traffic": (optimal(traffic="prompt 1"), {}, "bucketing.optimal.traffic: line 1: the line has 2 fields"),
    "traffic beyond the limits": (
        optimal(traffic="prompt 1 9000 0 1\ndecode 1 1 1 1"),
        {},
        "the traffic of strategy Optimal has no prompt shape within the limits",
    ),
    "two budgets": (
        optimal(promptGraphs=20, warmupSeconds=20),
        {},
        "promptGraphs or decodeGraphs and warmupSeconds are different kinds of budget",
    ),
    "budget of graphs": (optimal(promptGraphs=1), {}, "bucketing.optimal.promptGraphs: 1 is too small"),
    "budget of bytes": (optimal(graphBytes=1), {}, "bucketing.optimal.graphMemory: 1 is too small"),
    "budget of seconds": (optimal(warmupSeconds=1), {}, "bucketing.optimal.warmupSeconds: 1 is too small"),
    "budget with drafts": (optimal(decodeGraphs=9), {"draft_tokens": 2}, "with speculative decoding"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_policy_is_refused_with_a_message(case: str) -> None:
    policy, limits, message = REFUSED[case]
    with pytest.raises(PlanImpossible) as refused:
        check(policy, LIMITS.model_copy(update=limits))
    assert message in str(refused.value)


PROMPTS = "([1, 2, 4], [128, 2048], 0)"
GAPS = {
    "prompts": (file(PROMPTS, "(64, 1, 1000)"), "of the prompt shapes that the limits admit have no bucket"),
    "decode batches": (
        file("(1, 8192, 0)", "(32, 1, 1000)"),
        "decode batches of 33 to 64 sequences have no bucket, because the largest decode bucket has 32",
    ),
}


@pytest.mark.parametrize("case", GAPS)
def test_file_with_gaps_is_refused(case: str) -> None:
    policy, message = GAPS[case]
    with pytest.raises(BucketsMissing) as refused:
        check(policy)
    assert message in str(refused.value)


@pytest.mark.parametrize("case", GAPS)
def test_gaps_are_accepted_if_allowed(case: str) -> None:
    check(GAPS[case][0], gaps=False)


def test_file_needs_no_more_sequences_than_blocks() -> None:
    check(file("(1, 8192, 0)", "(32, 1, 32)"), kv_blocks=32)


@pytest.mark.parametrize(
    "policy",
    [{}, optimal(), optimal(promptGraphs=20, decodeGraphs=9), optimal(traffic="prompt 1 9 0 1\ndecode 1 1 1 1")],
    ids=str,
)
def test_possible_policy_is_accepted(policy: dict[str, Any]) -> None:
    check(policy)


@given(st.integers(1, 6), st.booleans(), st.sampled_from([1, 4, 16]))
@settings(max_examples=30, deadline=None)
def test_budget_is_refused_only_if_the_planner_refuses_it(graphs: int, contiguous: bool, prefills: int) -> None:
    limits = LIMITS.model_copy(
        update={"contiguous_paged_attention": contiguous, "max_num_prefill_seqs": prefills, "max_num_seqs": 8}
    )
    policy = optimal(promptGraphs=graphs, decodeGraphs=1)
    read = BucketPolicy.model_validate(policy)
    assert is_refused(check, policy, limits) == is_refused(make_plan, read, limits, 1000)
