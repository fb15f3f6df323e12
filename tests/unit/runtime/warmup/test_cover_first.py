"""The order CoverFirst, and the buckets that pad requests if a warm-up ends early."""

from collections.abc import Sequence
from itertools import combinations
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import most_context_kv_blocks_for_query, most_decode_blocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.planning.speculative import add_verification_buckets
from gaudi_runtime.warmup import cover_first as module
from gaudi_runtime.warmup.cover_first import cover_first, cover_first_plan_without_cold
from tests.support.policies import EXPONENTIAL

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
Shapes = set[tuple[int, int]]
BLOCK = 4


def limits(**changes: object) -> Limits:
    """Return limits for 24 tokens in blocks of 4 tokens, with 5 sequences."""
    given = {"max_model_len": 24, "max_num_seqs": 5, "max_num_batched_tokens": 16, "max_num_prefill_seqs": 2}
    return Limits.model_validate({**given, "block_size": BLOCK, "prefix_caching": False, **changes})


CONTEXTS = limits(prefix_caching=True)
CONTIGUOUS = limits(contiguous_paged_attention=True)
SCATTERED = limits(contiguous_paged_attention=False)
ROOMS = [limits(), CONTEXTS, limits(splits_prompts=True)]


def plan_of(phase: BucketPhase, buckets: Sequence[Bucket]) -> BucketPlan:
    """Return a plan with buckets of one phase."""
    ordered = tuple(sorted(buckets))
    return BucketPlan(prompt=ordered, decode=()) if phase is PROMPT else BucketPlan(prompt=(), decode=ordered)


def covered_prompts(plan: BucketPlan, room: Limits) -> Shapes:
    """Return the admissible (query, context) pairs of one prompt that have a bucket."""
    return {
        (query, context)
        for query in range(1, room.longest_query + 1)
        for context in range(most_context_kv_blocks_for_query(room, query) + 1)
        if plan.find(PROMPT, 1, query, context)
    }


def covered_decodes(plan: BucketPlan, room: Limits, kv_blocks: int) -> Shapes:
    """Return the admissible (batch size, blocks) pairs for which both lookups of the plugin find a bucket."""
    return {
        (size, blocks)
        # Every sequence writes to a separate block, so a batch has at least as many blocks as sequences.
        for size in range(1, min(room.max_num_seqs, kv_blocks) + 1)
        for blocks in range(size, most_decode_blocks(size, room, kv_blocks) + 1)
        if _found_twice(plan, size, size if room.contiguous_paged_attention else blocks, blocks)
    }


def _found_twice(plan: BucketPlan, size: int, filled: int, highest: int) -> bool:
    first = plan.find(DECODE, size, 1, filled)
    second = plan.find(DECODE, first.batch_size, 1, highest) if first else None
    return first is not None and second is not None and (first.batch_size, 1, second.num_blocks) in plan.decode


def covered(plan: BucketPlan, phase: BucketPhase, room: Limits, kv_blocks: int) -> Shapes:
    """Return the shapes of a phase that a plan covers."""
    return covered_prompts(plan, room) if phase is PROMPT else covered_decodes(plan, room, kv_blocks)


prompts = st.builds(Bucket, st.integers(1, 2), st.integers(1, 16), st.integers(0, 6))
decodes = st.builds(Bucket, st.integers(1, 6), st.just(1), st.integers(1, 34))
spaces = st.one_of(
    st.tuples(st.just(PROMPT), st.sets(prompts, min_size=1, max_size=9), st.sampled_from(ROOMS), st.just(30)),
    st.tuples(
        st.just(DECODE),
        st.sets(decodes, min_size=1, max_size=9),
        st.sampled_from([CONTIGUOUS, SCATTERED, CONTEXTS.model_copy(update={"contiguous_paged_attention": False})]),
        st.integers(1, 34),
    ),
)
Space = tuple[BucketPhase, set[Bucket], Limits, int]


@given(spaces)
def test_covering_prefix_covers_every_shape_of_the_plan(space: Space) -> None:
    phase, buckets, room, kv_blocks = space
    plan = plan_of(phase, list(buckets))
    order = cover_first(plan, phase, room, kv_blocks)
    assert sorted(order.buckets) == list(plan.buckets_of(phase))
    whole = covered(plan, phase, room, kv_blocks)
    for end in range(order.covering_count, len(order.buckets) + 1):
        assert covered(plan_of(phase, order.buckets[:end]), phase, room, kv_blocks) >= whole


@given(spaces)
def test_covering_set_has_the_fewest_buckets(space: Space) -> None:
    phase, buckets, room, kv_blocks = space
    plan = plan_of(phase, list(buckets))
    whole = covered(plan, phase, room, kv_blocks)
    fewest = next(
        count
        for count in range(len(buckets) + 1)
        for some in combinations(plan.buckets_of(phase), count)
        if covered(plan_of(phase, some), phase, room, kv_blocks) >= whole
    )
    assert cover_first(plan, phase, room, kv_blocks).covering_count == fewest


@given(spaces, st.randoms())
def test_plan_without_cold_buckets_covers_every_shape(space: Space, random: object) -> None:
    phase, buckets, room, kv_blocks = space
    plan = plan_of(phase, list(buckets))
    order = cover_first(plan, phase, room, kv_blocks)
    for end in range(max(1, order.covering_count), len(order.buckets) + 1):
        cold = {(phase, each) for each in order.buckets[end:]}
        lookups = cover_first_plan_without_cold(plan, room, cold)
        assert not {(phase, each) for each in lookups.buckets_of(phase)} & cold
        assert covered(lookups, phase, room, kv_blocks) >= covered(plan, phase, room, kv_blocks)


def verified(plan: BucketPlan, room: Limits, kv_blocks: int, warm: set[Bucket], whole: BucketPlan) -> Shapes:
    """Return the (batch size, blocks) pairs whose drafts a warm bucket verifies, after the plugin's two lookups."""
    tokens = 1 + (room.draft_tokens or 0)
    seeds = BucketPlan(prompt=(), decode=plan.seeds)
    ran = {each for each in warm if _ran_for_drafts(whole, each, room, tokens)}
    found: Shapes = set()
    for size in range(1, room.max_num_seqs + 1):
        for blocks in range(size, most_decode_blocks(size, room, kv_blocks) + 1):
            seed = seeds.find(DECODE, size, 1, blocks)
            rows = seed.batch_size * tokens if seed else 0
            verifying = plan.find(DECODE, rows, 1, blocks * tokens) if seed else None
            if verifying and Bucket(rows, 1, verifying.num_blocks) in ran:
                found.add((size, blocks))
    return found


def _ran_for_drafts(plan: BucketPlan, bucket: Bucket, room: Limits, tokens: int) -> bool:
    """Return True if warm-up runs this bucket for a step with drafts (engines/vllm/workers/speculative.py)."""
    size = bucket.batch_size // tokens
    total = min(bucket.num_blocks // tokens, size * ceil((room.max_model_len - tokens + 1) / room.block_size))
    if bucket.batch_size % tokens or total < size or size not in {each.batch_size for each in plan.seeds}:
        return False
    seed = BucketPlan(prompt=(), decode=plan.seeds).find(DECODE, size, 1, total)
    return bool(seed and seed.batch_size == size) and plan.find(DECODE, bucket.batch_size, 1, total * tokens) == bucket


@pytest.mark.parametrize("drafts", [1, 2, 4])
@given(
    sizes=st.sets(st.integers(1, 4), max_size=3),
    blocks=st.sets(st.integers(1, 29), max_size=5),
    others=st.sets(st.builds(Bucket, st.integers(1, 5), st.just(1), st.integers(5, 30)), max_size=4),
)
def test_prefix_covers_steps_that_verify_drafts(
    drafts: int, sizes: set[int], blocks: set[int], others: set[Bucket]
) -> None:
    room = limits(draft_tokens=drafts, contiguous_paged_attention=False)
    grid = {Bucket(size, 1, each) for size in (*sizes, 5) for each in (*blocks, 30) if each >= size}
    plan = add_verification_buckets(
        BucketPlan(prompt=(), decode=tuple(sorted(grid | others))),
        room,
        EXPONENTIAL,
        1000,
    )
    order = cover_first(plan, DECODE, room, 30)
    plain, drafted = covered_decodes(plan, room, 30), verified(plan, room, 30, set(plan.decode), plan)
    for end in range(order.covering_count, len(order.buckets) + 1):
        lookups = cover_first_plan_without_cold(plan, room, {(DECODE, each) for each in order.buckets[end:]})
        assert covered_decodes(lookups, room, 30) >= plain
        assert verified(lookups, room, 30, set(order.buckets[:end]), plan) >= drafted


def test_order_of_an_8b_plan_equals_the_manual() -> None:
    room = Limits(max_model_len=8192, max_num_seqs=128, max_num_batched_tokens=8192, prefix_caching=False, gapless=True)
    plan = make_plan(EXPONENTIAL, room, 4353)
    prompt, decode = (cover_first(plan, phase, room, 4353) for phase in BucketPhase)
    assert (prompt.covering_count, decode.covering_count) == (1, 1)
    assert [each.query_len for each in prompt.buckets[:4]] == [8192, 2048, 4096, 768]
    assert decode.buckets[0] == (128, 1, 4353)
    # With contiguous attention, the first bucket of each batch size is the largest bucket of this batch size.
    firsts = {each.batch_size: each for each in reversed(decode.buckets)}
    assert {each.num_blocks for each in firsts.values()} == {4353}


def test_ordering_2000_buckets_takes_limited_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    paid = module._OrderSearch._padded_cost

    def counted(self: module._OrderSearch, *shapes: Bucket, alone: bool) -> float | None:
        nonlocal compared
        compared += 1
        return paid(self, *shapes, alone=alone)

    monkeypatch.setattr(module._OrderSearch, "_padded_cost", counted)
    room = Limits(
        max_model_len=32_768, max_num_seqs=256, max_num_batched_tokens=8192, prefix_caching=False, gapless=True
    )
    plan = make_plan(BucketPolicy(strategy=Strategy.LINEAR), room, 20_000)
    assert len(cover_first(plan, DECODE, room, 20_000).buckets) == len(plan.decode) > 2000
    assert compared < 300 * len(plan.decode)


def test_phase_without_a_warm_bucket_keeps_its_buckets() -> None:
    plan = BucketPlan(prompt=(Bucket(1, 8, 0), Bucket(1, 16, 0)), decode=(Bucket(1, 1, 4),))
    lookups = cover_first_plan_without_cold(plan, limits(), {(PROMPT, each) for each in plan.prompt})
    assert (lookups.prompt, lookups.decode) == (plan.prompt, plan.decode)


def test_fallback_does_not_depend_on_removed_cold_buckets() -> None:
    plan = BucketPlan(prompt=(), decode=(Bucket(4, 1, 64), Bucket(4, 1, 1024)))
    lookups = cover_first_plan_without_cold(plan, SCATTERED, {(DECODE, plan.decode[1])})
    assert lookups.decode == plan.decode[:1]
    assert lookups.fallback(DECODE, SCATTERED, 4, 1, 1000) == plan.fallback(DECODE, SCATTERED, 4, 1, 1000)


def test_batch_size_with_a_cold_largest_bucket_is_not_used() -> None:
    plan = BucketPlan(prompt=(), decode=tuple(Bucket(size, 1, blocks) for size in (2, 4) for blocks in (8, 30)))
    assert cover_first_plan_without_cold(plan, CONTIGUOUS, {(DECODE, plan.decode[1])}).decode == plan.decode[2:]
    assert cover_first_plan_without_cold(plan, SCATTERED, {(DECODE, plan.decode[1])}).decode == (
        plan.decode[0],
        *plan.decode[2:],
    )
