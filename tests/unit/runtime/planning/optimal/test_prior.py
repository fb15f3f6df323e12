"""The traffic that is assumed if no traffic is known."""

from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeSpace, PromptSpace, ShapeSpace
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.planning.optimal.optimizer import Optimizer
from gaudi_runtime.planning.optimal.prior import TrafficKind, geometric_sizes, prior_traffic
from gaudi_runtime.traffic.histogram import Traffic

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
LIMITS = Limits(max_model_len=8192, max_num_seqs=64, max_num_batched_tokens=8192)
COST = typical_cost(128)


def compute(phase: BucketPhase, kind: TrafficKind) -> float:
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
        PROMPT: PromptSpace(limits, with_context=limits.has_context),
        DECODE: DecodeSpace(limits, kv_blocks),
    }
    for phase, space in spaces.items():
        for kind in prior_traffic(phase, limits, kv_blocks, COST):
            assert all(space.admits(shape) for shape in kind.weights)


def test_decode_kinds_are_the_doublings_of_sequences() -> None:
    assert names(DECODE, LIMITS) == [
        "1 to 1 sequences",
        "2 to 3 sequences",
        "4 to 7 sequences",
        "8 to 15 sequences",
        "16 to 31 sequences",
        "32 to 63 sequences",
        "64 to 127 sequences",
    ]


def test_kinds_with_equally_many_sizes_have_the_same_compute() -> None:
    kinds = {kind.name: kind for kind in prior_traffic(DECODE, LIMITS, 20_000, COST)}
    assert isclose(compute(DECODE, kinds["16 to 31 sequences"]), compute(DECODE, kinds["32 to 63 sequences"]))


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


def test_sequences_are_limited_by_the_device_memory() -> None:
    (busiest,) = (kind for kind in prior_traffic(DECODE, LIMITS, 128, COST) if kind.name == "64 to 127 sequences")
    assert min(shape.batch_size for shape in busiest.weights) == 4
    assert max(shape.num_blocks for shape in busiest.weights) <= 128


LEARNED = Traffic({Bucket(1, 700, 0): 1.0}, {Bucket(2, 1, 9): 1.0})


def unobserved(phase: BucketPhase) -> list[TrafficKind]:
    """Return the kinds of assumed traffic that are added to the learned traffic."""
    return [kind for kind in Optimizer(LEARNED, LIMITS, 2000).traffic_kinds(phase) if kind.name in names(phase, LIMITS)]


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_every_kind_is_added_to_learned_traffic(phase: BucketPhase) -> None:
    assert [kind.name for kind in unobserved(phase)] == names(phase, LIMITS)


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_prior_has_a_tenth_of_the_compute_of_learned_traffic(phase: BucketPhase) -> None:
    learned = compute(phase, TrafficKind("learned", LEARNED.shapes_of(phase)))
    assert sum(compute(phase, kind) for kind in unobserved(phase)) == pytest.approx(learned / 10)


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_prior_may_be_padded_1_25_times_like_exponential(phase: BucketPhase) -> None:
    assert {kind.max_ratio for kind in unobserved(phase)} == {1.25}


def test_sizes_are_evenly_spaced_and_end_with_the_maximum() -> None:
    assert geometric_sizes(1, 16, 1) == [1, 2, 4, 8, 16]
    assert geometric_sizes(5, 5, 8) == [5]
