"""Bucket lookups return the same as a plain scan (docs/internals/planning.md, Finding a bucket)."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.report import BucketPhase

SIZE = st.integers(0, 6)
SHAPES = st.lists(st.builds(Bucket, SIZE, SIZE, SIZE), unique=True, max_size=60)


def plan_of(*prompt: Bucket) -> BucketPlan:
    return BucketPlan(prompt=tuple(sorted(prompt)), decode=(Bucket(1, 1, 1),))


def scan(plan: BucketPlan, wanted: Bucket) -> Bucket | None:
    for bucket in plan.prompt:
        if all(have >= want for have, want in zip(bucket, wanted, strict=True)):
            return bucket
    return None


@given(SHAPES, st.builds(Bucket, SIZE, SIZE, SIZE))
def test_find_returns_first_bucket_that_is_large_enough(shapes: list[Bucket], wanted: Bucket) -> None:
    plan = plan_of(*shapes)
    assert plan.find(BucketPhase.PROMPT, *wanted) == scan(plan, wanted)


@given(SHAPES, st.lists(st.builds(Bucket, SIZE, SIZE, SIZE), max_size=20))
def test_find_never_changes_the_plan(shapes: list[Bucket], lookups: list[Bucket]) -> None:
    plan = plan_of(*shapes)
    before = (plan.prompt, plan.decode, plan.digest)
    for wanted in lookups:
        plan.find(BucketPhase.PROMPT, *wanted)
    assert (plan.prompt, plan.decode, plan_of(*shapes).digest) == before


def test_find_in_an_empty_phase_is_a_miss() -> None:
    assert plan_of().find(BucketPhase.PROMPT, 1, 1, 0) is None


def test_find_prefers_a_smaller_batch_over_a_shorter_query() -> None:
    plan = plan_of(Bucket(1, 512, 0), Bucket(2, 128, 0))
    assert plan.find(BucketPhase.PROMPT, 1, 100, 0) == Bucket(1, 512, 0)


def test_find_skips_a_query_whose_contexts_are_too_short() -> None:
    plan = plan_of(Bucket(1, 128, 4), Bucket(1, 256, 2), Bucket(2, 256, 8))
    assert plan.find(BucketPhase.PROMPT, 1, 100, 6) == Bucket(2, 256, 8)


def test_plans_with_the_same_buckets_have_the_same_digest() -> None:
    assert plan_of(Bucket(1, 128, 0)).digest == plan_of(Bucket(1, 128, 0)).digest


def test_digest_is_the_sha256_of_both_lists_as_compact_json() -> None:
    """The digest must match the test vectors, because pods and operators of all releases compare digests."""
    text = "[[[1,128,0],[2,128,3]],[[1,1,1]]]"
    assert plan_of(Bucket(2, 128, 3), Bucket(1, 128, 0)).digest == hashlib.sha256(text.encode()).hexdigest()


def test_plans_that_differ_in_one_bucket_differ_in_digest() -> None:
    assert plan_of(Bucket(1, 128, 0)).digest != plan_of(Bucket(1, 128, 1)).digest
