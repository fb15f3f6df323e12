"""The traffic that is assumed if no traffic is known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeShapeSpace, PromptShapeSpace, ShapeSpace
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.planning.optimal.optimizer import Optimizer
from gaudi_runtime.planning.optimal.prior import (
    BUSY_RATIO,
    PriorTrafficKind,
    geometric_prior_sizes,
    prior_kinds,
    prior_traffic,
)
from gaudi_runtime.traffic.histogram import Traffic

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
LIMITS = Limits(max_model_len=8192, max_num_seqs=64, max_num_batched_tokens=8192)
COST = typical_cost(128)


def compute(phase: BucketPhase, kind: PriorTrafficKind) -> float:
    return sum(weight * COST(phase, shape) for shape, weight in kind.weights.items())


def names(phase: BucketPhase, limits: Limits, kv_blocks: int = 2000) -> list[str]:
    return [kind.name for kind in prior_traffic(phase, limits, kv_blocks, COST)]


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    length = draw(st.integers(2, 200_000))
    return Limits(
        max_model_len=length,
        max_num_seqs=draw(st.integers(1, 300)),
        max_num_prefill_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=draw(st.integers(1, length)),
        contiguous_paged_attention=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
        splits_prompts=draw(st.booleans()),
    )


@settings(max_examples=60)
@given(limits(), st.integers(1, 20_000))
def test_every_shape_is_admissible(limits: Limits, kv_blocks: int) -> None:
    spaces: dict[BucketPhase, ShapeSpace] = {
        PROMPT: PromptShapeSpace(limits, with_context=limits.has_context),
        DECODE: DecodeShapeSpace(limits, kv_blocks),
    }
    for phase, space in spaces.items():
        for kind in prior_traffic(phase, limits, kv_blocks, COST):
            assert all(space.admits(shape) for shape in kind.weights)


def test_decode_kinds_are_the_doublings_of_sequences_and_contexts() -> None:
    found = names(DECODE, LIMITS, 20_000)
    assert found[:2] == ["1 to 1 sequences of 2 to 4 blocks", "1 to 1 sequences of 4 to 8 blocks"]
    assert found[-1] == "64 to 127 sequences of 64 to 128 blocks"
    assert len(found) == 7 * 6


def test_sum_of_decode_steps_is_a_kind_with_a_limit() -> None:
    *kinds, total = prior_kinds(DECODE, LIMITS, 2000, COST)
    assert total.max_ratio < min(kind.max_ratio for kind in kinds)
    assert compute(DECODE, total) == pytest.approx(sum(compute(DECODE, kind) for kind in kinds))


def test_busiest_steps_have_a_lower_limit() -> None:
    ratios = {kind.max_ratio for kind in prior_traffic(DECODE, LIMITS, 2000, COST) if kind.name.startswith("64")}
    assert ratios == {BUSY_RATIO}


@pytest.mark.parametrize("contiguous", [False, True])
def test_contexts_reach_the_longest_sequence(contiguous: bool) -> None:
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": contiguous})
    shapes = [shape for kind in prior_traffic(DECODE, limits, 5000, COST) for shape in kind.weights]
    assert max(shape.num_blocks / shape.batch_size for shape in shapes) == 64


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["one prompt"]),
        ({"prefix_caching": True}, ["one prompt", "one prompt with context"]),
        ({"max_num_prefill_seqs": 4}, ["one prompt", "several prompts"]),
    ],
)
def test_prompt_kinds_depend_on_the_limits(change: dict[str, int], expected: list[str]) -> None:
    assert names(PROMPT, LIMITS.model_copy(update=change)) == expected


def test_contexts_of_a_query_share_the_compute_of_one_prompt() -> None:
    single, with_context = prior_traffic(PROMPT, LIMITS.model_copy(update={"prefix_caching": True}), 2000, COST)
    # Only the longest prompts have no room for context.
    queries = {shape.query_len for shape in with_context.weights}
    assert 1 < len(queries) < len(single.weights)
    assert compute(PROMPT, with_context) == pytest.approx(len(queries))


def test_sequences_are_limited_by_the_device_memory() -> None:
    kinds = prior_traffic(DECODE, LIMITS, 128, COST)
    full = [shape for kind in kinds if kind.name.endswith("of 32 to 64 blocks") for shape in kind.weights]
    assert max(shape.batch_size for shape in full) <= 4
    assert max(shape.num_blocks for kind in kinds for shape in kind.weights) <= 128


LEARNED = Traffic({Bucket(1, 700, 0): 1.0}, {Bucket(2, 1, 9): 1.0})


def unobserved(phase: BucketPhase) -> list[PriorTrafficKind]:
    """Return the kinds of assumed traffic that are added to the learned traffic."""
    return [kind for kind in Optimizer(LEARNED, LIMITS, 2000).traffic_kinds(phase) if kind.name in names(phase, LIMITS)]


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_every_kind_is_added_to_learned_traffic(phase: BucketPhase) -> None:
    assert [kind.name for kind in unobserved(phase)] == names(phase, LIMITS)


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_prior_has_a_tenth_of_the_compute_of_learned_traffic(phase: BucketPhase) -> None:
    learned = compute(phase, PriorTrafficKind("learned", LEARNED.shapes_of(phase)))
    assert sum(compute(phase, kind) for kind in unobserved(phase)) == pytest.approx(learned / 10)


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_prior_may_be_padded_1_25_times_like_exponential(phase: BucketPhase) -> None:
    assert {kind.max_ratio for kind in unobserved(phase)} == {1.25}


def test_sizes_are_evenly_spaced_and_end_with_the_maximum() -> None:
    assert geometric_prior_sizes(1, 16, 1) == [1, 2, 4, 8, 16]
    assert geometric_prior_sizes(5, 5, 8) == [5]
