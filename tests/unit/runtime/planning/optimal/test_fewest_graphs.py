"""The number of graphs of a plan without a budget."""

import re
from functools import cache

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.optimal.cost import score_plan_cost, typical_cost
from gaudi_runtime.planning.optimal.fewest_graphs import (
    TOLERANCE,
    FewestGraphsReference,
    find_fewest_buckets,
)
from gaudi_runtime.planning.optimal.prior import PriorTrafficKind, prior_kinds, prior_traffic
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic

DECODE = BucketPhase.DECODE
COST = typical_cost(128)
LIMITS = Limits(max_model_len=8192, max_num_seqs=32, max_num_batched_tokens=8192, gapless=True)
WITH_CONTEXT = LIMITS.model_copy(
    update={"prefix_caching": True, "contiguous_paged_attention": False, "max_num_batched_tokens": 2048}
)
KV_BLOCKS = 1200
EXPONENTIAL = BucketPolicy(strategy=Strategy.EXPONENTIAL)


@cache
def plans(with_context: bool) -> tuple[BucketPlan, BucketPlan]:
    """Return the Optimal plan without traffic, and the Exponential plan."""
    limits = WITH_CONTEXT if with_context else LIMITS
    return (
        make_plan(BucketPolicy(strategy=Strategy.OPTIMAL), limits, KV_BLOCKS),
        make_plan(EXPONENTIAL, limits, KV_BLOCKS),
    )


def padding(plan: BucketPlan, phase: BucketPhase, kind: PriorTrafficKind) -> float:
    found = score_plan_cost(plan, phase, Traffic(kind.weights, kind.weights), COST)
    assert found.coverage == 1.0
    assert found.padding is not None
    return found.padding


@pytest.mark.parametrize("with_context", [False, True])
@pytest.mark.parametrize("phase", list(BucketPhase))
def test_each_kind_of_traffic_pads_at_most_as_with_exponential(with_context: bool, phase: BucketPhase) -> None:
    plan, rival = plans(with_context)
    for kind in prior_kinds(phase, WITH_CONTEXT if with_context else LIMITS, KV_BLOCKS, COST):
        most = max(padding(rival, phase, kind) * (kind.max_ratio + TOLERANCE), kind.allowed_padding)
        assert padding(plan, phase, kind) <= most * (1 + 1e-9), kind.name


@pytest.mark.parametrize("with_context", [False, True])
def test_plan_has_at_most_three_quarters_of_the_exponential_graphs(with_context: bool) -> None:
    plan, rival = plans(with_context)
    assert len(plan.prompt) + len(plan.decode) <= 0.75 * (len(rival.prompt) + len(rival.decode))


def test_traffic_of_a_single_shape_needs_three_graphs() -> None:
    plan = make_plan(EXPONENTIAL, LIMITS, KV_BLOCKS)
    kinds = (PriorTrafficKind("traffic", {Bucket(7, 1, 100): 1.0}),)
    buckets = find_fewest_buckets(DECODE, kinds, KV_BLOCKS, FewestGraphsReference(plan, LIMITS, COST))
    # The plan has one row for the shape. Contiguous attention also needs a bucket with all blocks in this row. The last
    # bucket is for the largest batch.
    assert [bucket.num_blocks for bucket in buckets] == [100, 1200, 1200]
    assert buckets[-1] == Bucket(32, 1, 1200)


def few_decode_buckets(shape: Bucket) -> tuple[Bucket, ...]:
    """Return the buckets for one decode shape with at most four sequences and 64 KV blocks."""
    limits = LIMITS.model_copy(update={"max_model_len": 2048, "max_num_seqs": 4, "max_num_batched_tokens": 2048})
    reference = FewestGraphsReference(make_plan(EXPONENTIAL, limits, 64), limits, COST)
    return find_fewest_buckets(DECODE, (PriorTrafficKind("traffic", {shape: 1.0}),), 64, reference)


def test_start_with_one_graph_fewer_is_used() -> None:
    # A row for two sequences would need three graphs: (2, 1, 20), (2, 1, 64) and (4, 1, 64).
    assert few_decode_buckets(Bucket(2, 1, 20)) == (Bucket(4, 1, 20), Bucket(4, 1, 64))


def test_shape_beyond_the_limits_is_a_defect() -> None:
    with pytest.raises(AssertionError, match=re.escape("(5, 1, 20) has no bucket")):
        few_decode_buckets(Bucket(5, 1, 20))


@pytest.mark.parametrize("phase", list(BucketPhase))
def test_unobserved_traffic_pads_at_most_1_25_times_as_exponential(phase: BucketPhase) -> None:
    learned = OptimalSettings(traffic="prompt 1 700 0 1\ndecode 2 1 9 1")
    plan = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=learned), LIMITS, KV_BLOCKS)
    rival = make_plan(EXPONENTIAL, LIMITS, KV_BLOCKS)
    for kind in prior_traffic(phase, LIMITS, KV_BLOCKS, COST):
        assert padding(plan, phase, kind) <= padding(rival, phase, kind) * (1.25 + TOLERANCE), kind.name


def test_shape_without_a_bucket_costs_its_fallback_bucket() -> None:
    rival = FewestGraphsReference(BucketPlan(prompt=(), decode=(Bucket(1, 1, 8),)), LIMITS, COST)
    kind = PriorTrafficKind("traffic", {Bucket(2, 1, 4): 1.0})
    assert rival.padded_compute(DECODE, kind) == COST(DECODE, Bucket(4, 1, 8))


def test_kind_without_shapes_is_refused() -> None:
    plan = make_plan(EXPONENTIAL, LIMITS, KV_BLOCKS)
    with pytest.raises(PlanImpossible, match="has no decode shape within the limits"):
        find_fewest_buckets(
            DECODE, (PriorTrafficKind("traffic", {}),), KV_BLOCKS, FewestGraphsReference(plan, LIMITS, COST)
        )
