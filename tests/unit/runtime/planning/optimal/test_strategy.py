"""Budgets in a policy: graphs, bytes, seconds, insufficient budgets and contradictions."""

from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.coverage import plan_coverage
from gaudi_runtime.planning.optimal import cost
from gaudi_runtime.planning.optimal.cost import Price
from gaudi_runtime.planning.optimal.fewest_graphs import TOLERANCE
from gaudi_runtime.planning.optimal.optimizer import Optimizer
from gaudi_runtime.planning.optimal.strategy import forecast_strategy_padding, optimal_strategy_buckets
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import parse_traffic

LIMITS = Limits(max_model_len=4096, max_num_seqs=8, max_num_batched_tokens=4096)
TRAFFIC = "".join(f"prompt 1 {300 * n} 0 {20 - n}\n" for n in range(1, 14)) + "".join(
    f"decode {n} 1 {5 * n} {n}\n" for n in range(1, 9)
)
GIB = 2**30


def plan(**budget: int) -> BucketPlan:
    settings = OptimalSettings(traffic=TRAFFIC, **budget)
    return make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings), LIMITS, kv_blocks=100)


def cost_of(chosen: BucketPlan, price: Price) -> float:
    return sum(price(phase, bucket) for phase in BucketPhase for bucket in chosen.buckets_of(phase))


def test_plan_uses_all_graphs_of_the_budget() -> None:
    chosen = plan(prompt_graphs=5, decode_graphs=9)
    assert (len(chosen.prompt), len(chosen.decode)) == (5, 9)


def test_plan_without_budget_has_fewer_graphs_than_exponential() -> None:
    chosen, rival = plan(), make_plan(BucketPolicy(strategy=Strategy.EXPONENTIAL), LIMITS, kv_blocks=100)
    assert len(chosen.prompt) < len(rival.prompt)
    assert len(chosen.decode) < len(rival.decode)


@pytest.mark.parametrize(
    ("budget", "plans"), [({}, 1), ({"prompt_graphs": 5}, 1), ({"prompt_graphs": 5, "decode_graphs": 9}, 0)]
)
def test_exponential_is_planned_at_most_once(budget: dict[str, int], plans: int) -> None:
    made: list[BucketPlan] = []

    def exponential() -> BucketPlan:
        made.append(make_plan(BucketPolicy(strategy=Strategy.EXPONENTIAL), LIMITS, kv_blocks=100))
        return made[-1]

    settings = OptimalSettings(traffic=TRAFFIC, **budget)
    optimal_strategy_buckets(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings), LIMITS, 100, exponential)
    assert len(made) == plans


def test_plan_without_budget_pads_at_most_like_exponential() -> None:
    chosen, rival = plan(), make_plan(BucketPolicy(strategy=Strategy.EXPONENTIAL), LIMITS, kv_blocks=100)
    traffic, token_cost = parse_traffic(TRAFFIC), cost.typical_cost(128)
    for phase in BucketPhase:
        padding = cost.score_plan_cost(chosen, phase, traffic, token_cost).padding
        bound = cost.score_plan_cost(rival, phase, traffic, token_cost).padding
        assert padding is not None
        assert bound is not None
        assert padding <= bound * (1 + TOLERANCE)


@settings(max_examples=8)
@given(st.integers(8 * GIB, 60 * GIB))
def test_graph_bytes_are_never_exceeded(budget: int) -> None:
    assert cost_of(plan(graph_bytes=budget), cost.price_in_bytes(128)) <= budget


@settings(max_examples=8)
@given(st.integers(3, 90))
def test_warmup_seconds_are_never_exceeded(budget: int) -> None:
    assert cost_of(plan(warmup_seconds=budget), cost.price_in_seconds) <= budget


def test_plan_with_a_byte_budget_has_at_least_five_buckets() -> None:
    """Plans with a budget of bytes are improved by exchanges, like plans with a budget of graphs."""
    traffic = parse_traffic(TRAFFIC)
    price = cost.price_in_bytes(128)
    decode = (BucketPhase.DECODE,)
    varied = LIMITS.model_copy(update={"contiguous_paged_attention": False})
    optimizer = Optimizer(traffic, varied, 100)
    budget = 5 * optimizer.least_price(BucketPhase.DECODE, price)
    (chosen,) = optimizer.choose(decode, price, budget, "--graph-bytes").values()
    assert len(chosen) >= 5
    assert sum(price(BucketPhase.DECODE, bucket) for bucket in chosen) <= budget


def test_plan_with_more_warmup_seconds_has_more_graphs() -> None:
    counts = [len(each.prompt) + len(each.decode) for each in (plan(warmup_seconds=10), plan(warmup_seconds=30))]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda: plan(graph_bytes=1000),
            "bucketing.optimal.graphMemory: 1000 is too small, because buckets for all admissible prompt and decode "
            "batches need at least 6.15393e+09",
        ),
        (
            lambda: plan(warmup_seconds=1),
            "bucketing.optimal.warmupSeconds: 1 is too small, because buckets for all admissible prompt and decode "
            "batches need at least 1.63333",
        ),
        (
            lambda: plan(prompt_graphs=3, graph_bytes=9 * GIB),
            "bucketing.optimal: promptGraphs or decodeGraphs and graphMemory are different kinds of budget. Set only "
            "one kind",
        ),
        (
            lambda: plan(decode_graphs=3, graph_bytes=9 * GIB, warmup_seconds=9),
            "bucketing.optimal: promptGraphs or decodeGraphs and graphMemory and warmupSeconds are different kinds of "
            "budget. Set only one kind",
        ),
    ],
)
def test_impossible_budget_is_refused_with_the_setting(ask: Callable[[], BucketPlan], sentence: str) -> None:
    with pytest.raises(PlanImpossible) as refusal:
        ask()
    assert str(refusal.value) == sentence


def test_traffic_without_decode_is_refused() -> None:
    only = OptimalSettings(traffic="prompt 1 300 0 1")
    with pytest.raises(PlanImpossible) as refusal:
        make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=only), LIMITS, 100)
    assert str(refusal.value) == (
        "the traffic of strategy Optimal has no decode shape within the limits. Learn from the traffic of this model, "
        "or raise the limits"
    )


def test_traffic_beyond_the_limits_is_reported() -> None:
    beyond = OptimalSettings(traffic=TRAFFIC + "prompt 1 9999 0 100\n")
    chosen = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=beyond), LIMITS, 100)
    assert chosen.warnings == (
        "bucketing.optimal.traffic: 37.17% of the prompt weight exceeds the limits and was ignored",
    )


def test_padding_is_forecast_for_each_class_of_batch_sizes() -> None:
    learned = OptimalSettings(traffic="prompt 1 256 0 1\ndecode 1 1 10 1\ndecode 2 1 20 1")
    policy = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=learned)
    chosen = BucketPlan(prompt=(Bucket(1, 512, 0),), decode=(Bucket(2, 1, 20),))
    found = forecast_strategy_padding(policy, LIMITS, chosen)
    token_cost = cost.typical_cost(128)
    prompt, decode = BucketPhase.PROMPT, BucketPhase.DECODE
    ratio = token_cost(prompt, Bucket(1, 512, 0)) / token_cost(prompt, Bucket(1, 256, 0))
    assert found[prompt].by_size == {1: pytest.approx(ratio)}
    full, half = token_cost(decode, Bucket(2, 1, 20)), token_cost(decode, Bucket(1, 1, 10))
    assert found[decode].by_size == {1: pytest.approx(full / half), 2: pytest.approx(1.0)}
    assert found[decode].overall == pytest.approx(2 * full / (full + half))


def test_same_budget_returns_the_same_plan() -> None:
    assert plan(decode_graphs=20) == plan(decode_graphs=20)


def test_optimal_settings_of_other_strategies_cause_a_warning() -> None:
    policy = BucketPolicy(strategy=Strategy.EXPONENTIAL, optimal=OptimalSettings(traffic=TRAFFIC))
    (warning,) = make_plan(policy, LIMITS, 100).warnings
    assert warning.startswith("bucketing.optimal is ignored")


def test_plan_for_many_prompt_batch_sizes_is_made_within_seconds() -> None:
    """With a large maxNumBatchedTokens, most prompt batch sizes have different longest queries."""
    limits = Limits(
        max_model_len=131_072,
        max_num_seqs=256,
        max_num_prefill_seqs=256,
        max_num_batched_tokens=131_072,
        prefix_caching=True,
    )
    settings = OptimalSettings(traffic="prompt 1 100 3 1\nprompt 40 700 9 1\ndecode 1 1 9 1\n")
    start = process_time()
    chosen = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings), limits, kv_blocks=1000)
    assert process_time() - start < 20
    assert plan_coverage(chosen, limits, 1000).describe_gaps() is None
