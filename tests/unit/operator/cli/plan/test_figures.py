"""The cost and the benefit of a plan."""

import random
from itertools import combinations
from operator import le

import pytest

from gaudi_operator.cli.plan.figures import ExpectedTraffic, expected_traffic, figures_of, increase_without_last_graphs
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import score_plan, token_cost, typical_cost
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic

PROMPT, DECODE = BucketPhase
LIMITS = Limits(
    max_model_len=8192,
    max_num_seqs=32,
    max_num_batched_tokens=8192,
    contiguous_paged_attention=False,
    gapless=True,
)
KV_BLOCKS = 1200
LADDER = BucketPlan(
    prompt=tuple(Bucket(1, query, 0) for query in (128, 256, 512, 1024)), decode=(Bucket(1, 1, 64),), warnings=()
)
"""Four prompt buckets, of which the largest must stay."""


def expected(prompts: dict[int, float], steps: dict[Bucket, float] | None = None) -> ExpectedTraffic:
    prompt = {Bucket(1, query, 0): weight for query, weight in prompts.items()}
    return ExpectedTraffic(Traffic(prompt, steps or {}), token_cost(128), "made up")


def saving_of_last_graphs(
    plan: BucketPlan, traffic: ExpectedTraffic, count: int, limits: Limits = LIMITS
) -> float | None:
    return increase_without_last_graphs(plan, limits, traffic, count)


def test_unused_graph_saves_no_padding() -> None:
    assert saving_of_last_graphs(LADDER, expected({100: 1.0, 1000: 1.0}), 2) == 0.0


def test_graphs_with_the_smallest_saving_are_removed_first() -> None:
    traffic = expected({128: 1.0, 256: 1.0, 512: 10.0})
    # Without the bucket of 128 tokens, the smallest prompt has 128 tokens of padding. Without the buckets of 128 and
    # 256 tokens, the two small prompts have 384 and 256 tokens of padding.
    assert saving_of_last_graphs(LADDER, traffic, 1) == pytest.approx(128 / (128 + 256 + 5120))
    assert saving_of_last_graphs(LADDER, traffic, 2) == pytest.approx((128 + 512) / (128 + 256 + 5120))


def test_graphs_required_for_coverage_are_never_removed() -> None:
    assert saving_of_last_graphs(LADDER, expected({128: 1.0}), 3) is not None
    assert saving_of_last_graphs(LADDER, expected({128: 1.0}), 4) is None


def test_bucket_with_the_most_blocks_is_kept_with_contiguous_attention() -> None:
    plan = BucketPlan(prompt=(), decode=(Bucket(1, 1, 8), Bucket(1, 1, 64), Bucket(2, 1, 64)))
    traffic = expected({}, {Bucket(1, 1, 5): 1.0})
    assert saving_of_last_graphs(plan, traffic, 2) is not None
    contiguous = LIMITS.model_copy(update={"contiguous_paged_attention": True})
    assert saving_of_last_graphs(plan, traffic, 1, contiguous) is not None
    assert saving_of_last_graphs(plan, traffic, 2, contiguous) is None


def test_plan_with_draft_steps_has_no_saving() -> None:
    plan = BucketPlan(prompt=LADDER.prompt, decode=LADDER.decode, seeds=LADDER.decode)
    assert saving_of_last_graphs(plan, expected({128: 1.0}), 1) is None


@pytest.mark.parametrize("seed", range(5))
def test_removed_graph_is_the_one_with_the_smallest_saving(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    decode = sorted({Bucket(chance.randint(1, 4), 1, chance.randint(4, 40)) for _ in range(8)} | {Bucket(4, 1, 40)})
    steps = {Bucket(chance.randint(1, 4), 1, chance.randint(4, 40)): chance.random() for _ in range(30)}
    plan, traffic = BucketPlan(prompt=(), decode=tuple(decode)), expected({}, steps)

    def padded(buckets: tuple[Bucket, ...]) -> float | None:
        found = score_plan(BucketPlan((), buckets), DECODE, traffic.traffic, traffic.cost)
        return found.padding if found.coverage == 1.0 else None

    whole = padded(plan.decode)
    assert whole
    fewer = (
        padding / whole - 1
        for left in combinations(decode, len(decode) - 1)
        if (padding := padded(left)) and all(any(all(map(le, each, other)) for other in left) for each in decode)
    )
    assert saving_of_last_graphs(plan, traffic, 1) == pytest.approx(min(fewer))


def test_plan_with_ten_fewer_graphs_has_about_the_reported_padding() -> None:
    """The extra padding of an Optimal plan with ten fewer graphs is at most three times the reported saving."""
    whole = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL), LIMITS, KV_BLOCKS)
    traffic = expected_traffic(BucketPolicy(), LIMITS, KV_BLOCKS)
    figures = figures_of(whole, LIMITS, KV_BLOCKS, traffic)
    settings = OptimalSettings(prompt_graphs=len(whole.prompt), decode_graphs=len(whole.decode) - 10)
    fewer = make_plan(BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings), LIMITS, KV_BLOCKS)
    searched = figures_of(fewer, LIMITS, KV_BLOCKS, traffic).padding
    assert figures.last_graphs_increase
    assert figures.padding
    assert searched
    assert 0 < searched / figures.padding - 1 < 3 * figures.last_graphs_increase


def test_plan_figures_combine_both_phases() -> None:
    plan = make_plan(BucketPolicy(), LIMITS, KV_BLOCKS)
    found = figures_of(plan, LIMITS, KV_BLOCKS, expected_traffic(BucketPolicy(), LIMITS, KV_BLOCKS))
    assert found.graphs == len(plan.prompt) + len(plan.decode)
    assert found.padding == pytest.approx(sum(each.padding or 0 for each in found.scores.values()) / 2)
    assert found.coverage == {PROMPT: 1.0, DECODE: 1.0}
    assert found.missing_count == 0


def test_expected_traffic_is_the_traffic_of_the_policy() -> None:
    learned = BucketPolicy(optimal=OptimalSettings(traffic="prompt 1 700 0 3"))
    assert expected_traffic(learned, LIMITS, KV_BLOCKS).traffic.prompt == {Bucket(1, 700, 0): 3.0}
    assert len(expected_traffic(BucketPolicy(), LIMITS, KV_BLOCKS).traffic.prompt) > 20
    assert expected_traffic(learned, LIMITS, KV_BLOCKS).cost(PROMPT, Bucket(1, 128, 0)) == typical_cost(128)(
        PROMPT, Bucket(1, 128, 0)
    )
