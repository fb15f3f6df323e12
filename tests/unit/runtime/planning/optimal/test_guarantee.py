"""Every admissible batch has a bucket, for any traffic, limits and budget."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.coverage import plan_coverage
from gaudi_runtime.planning.optimal.cost import price_in_graphs
from gaudi_runtime.planning.optimal.optimizer import Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic, format_traffic


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    return Limits(
        max_model_len=draw(st.integers(2, 3000)),
        max_num_seqs=draw(st.integers(1, 24)),
        max_num_prefill_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(st.integers(1, 3000)),
        block_size=draw(st.sampled_from([16, 128])),
        contiguous_paged_attention=draw(st.booleans()),
        prefix_caching=draw(st.booleans()),
    )


SIZES = st.integers(1, 3000)
PROMPTS = st.dictionaries(st.builds(Bucket, st.integers(1, 6), SIZES, st.integers(0, 30)), SIZES, max_size=6)
STEPS = st.dictionaries(st.builds(Bucket, st.integers(1, 24), st.just(1), SIZES), SIZES, max_size=6)


def policy(traffic: Traffic, **budget: int) -> BucketPolicy:
    return BucketPolicy(strategy=Strategy.OPTIMAL, optimal=OptimalSettings(traffic=format_traffic(traffic), **budget))


def traffic_with_one_of_each(prompts: dict[Bucket, int], steps: dict[Bucket, int], limits: Limits) -> Traffic:
    """Return traffic with the drawn shapes and, for each phase, one shape that is always admissible."""
    return Traffic({**prompts, Bucket(1, 1, 0): 1}, {**steps, Bucket(1, 1, 1): 1})


@settings(max_examples=40)
@given(limits(), PROMPTS, STEPS, st.integers(1, 200), st.integers(1, 30))
def test_every_admissible_batch_has_a_bucket(
    limits: Limits, prompts: dict[Bucket, int], steps: dict[Bucket, int], kv_blocks: int, graphs: int
) -> None:
    traffic = traffic_with_one_of_each(prompts, steps, limits)
    optimizer = Optimizer(traffic, limits, kv_blocks)
    chosen = {}
    for phase in BucketPhase:
        budget = max(graphs, round(optimizer.least_price(phase, price_in_graphs)))
        chosen[phase] = optimizer.choose((phase,), price_in_graphs, budget, "graphs")[phase]
        assert len(chosen[phase]) <= budget
        assert list(chosen[phase]) == sorted(set(chosen[phase]))
    plan = BucketPlan(chosen[BucketPhase.PROMPT], chosen[BucketPhase.DECODE])
    assert plan_coverage(plan, limits, kv_blocks).describe_gaps() is None


@settings(max_examples=25)
@given(limits(), st.integers(1, 200))
def test_every_admissible_batch_has_a_bucket_without_traffic(limits: Limits, kv_blocks: int) -> None:
    limits = limits.model_copy(update={"gapless": True})
    plan = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL), limits, kv_blocks)
    assert plan_coverage(plan, limits, kv_blocks).describe_gaps() is None


@settings(max_examples=15)
@given(limits(), PROMPTS, STEPS, st.integers(1, 200))
def test_budget_one_graph_below_the_minimum_is_refused(
    limits: Limits, prompts: dict[Bucket, int], steps: dict[Bucket, int], kv_blocks: int
) -> None:
    optimizer = Optimizer(traffic_with_one_of_each(prompts, steps, limits), limits, kv_blocks)
    for phase in BucketPhase:
        least = round(optimizer.least_price(phase, price_in_graphs))
        if least > 1:
            with pytest.raises(PlanImpossible, match=f"graphs: {least - 1} is too small"):
                optimizer.choose((phase,), price_in_graphs, least - 1, "graphs")


@pytest.mark.parametrize(
    ("prefills", "tokens", "length", "caching"),
    [(1, 2048, 2048, False), (1, 2048, 4096, True), (4, 4096, 4096, True), (8, 8192, 2048, False)],
)
def test_plan_of_a_policy_covers_every_admissible_batch(prefills: int, tokens: int, length: int, caching: bool) -> None:
    limits = Limits(
        max_model_len=length,
        max_num_seqs=16,
        max_num_prefill_seqs=prefills,
        max_num_batched_tokens=tokens,
        prefix_caching=caching,
    )
    traffic = Traffic({Bucket(1, 300, 0): 5, Bucket(1, 1500, 3): 1}, {Bucket(3, 1, 20): 9, Bucket(12, 1, 60): 2})
    plan = make_plan(policy(traffic), limits, kv_blocks=400)
    assert plan_coverage(plan, limits, 400).describe_gaps() is None


def test_optimal_has_a_bucket_for_a_gap_of_exponential() -> None:
    limits = Limits(
        max_model_len=4096, max_num_seqs=16, max_num_prefill_seqs=4, max_num_batched_tokens=4096, prefix_caching=True
    )
    traffic = Traffic({Bucket(1, 300, 0): 5}, {Bucket(3, 1, 20): 9})
    wanted = (BucketPhase.PROMPT, 2, 1820, 0)
    assert make_plan(BucketPolicy(strategy=Strategy.EXPONENTIAL), limits, kv_blocks=3000).find(*wanted) is None
    assert make_plan(policy(traffic), limits, kv_blocks=3000).find(*wanted) is not None


def test_contiguous_attention_plan_of_four_decode_graphs_has_no_gap() -> None:
    limits = Limits(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=512)
    traffic = Traffic({Bucket(1, 90, 0): 5}, {Bucket(1, 1, 2): 5, Bucket(4, 1, 20): 5})
    plan = make_plan(policy(traffic, decode_graphs=4), limits, kv_blocks=33)
    assert plan_coverage(plan, limits, 33).describe_gaps() is None
