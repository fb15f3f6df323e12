"""Padding of a learned plan: the forecast for its training traffic, and the padding of served batches."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import FEWEST_PROMPTS, BucketPhase, RequestCountsReport
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.planning.optimal.strategy import forecast_strategy_padding
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.report.served import summarize_served
from gaudi_runtime.report.serving_counters import CounterPublisher
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, make_padder
from tests.support.policies import EXPONENTIAL

PROMPT, DECODE = BucketPhase.PROMPT, BucketPhase.DECODE
LIMITS = Limits(max_model_len=1024, max_num_seqs=8, max_num_batched_tokens=1024)
KV_BLOCKS = 64
USUAL = Traffic({Bucket(1, 100 + at, 0): 5 for at in range(9)}, {Bucket(2, 1, 3): 70, Bucket(3, 1, 5): 20})


def learned_plan(traffic: Traffic) -> BucketPolicy:
    settings = OptimalSettings(traffic=format_traffic(traffic), prompt_graphs=3, decode_graphs=4)
    return BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings)


def histogram_for(policy: BucketPolicy) -> ServingHistogram:
    """Return the histogram of a server with the plan of `policy`."""
    plan = make_plan(policy, LIMITS, KV_BLOCKS)
    histogram = ServingHistogram(make_padder(plan, LIMITS, lambda _phase, _bucket: True))
    histogram.padding = forecast_strategy_padding(policy, LIMITS, plan)
    return histogram


def serve(histogram: ServingHistogram, batches: Iterable[tuple[Bucket, float]], phase: BucketPhase = PROMPT) -> None:
    for shape, count in batches:
        for _ in range(int(count)):
            histogram.count_batch(phase, shape)


def test_other_traffic_is_padded_more_than_forecast() -> None:
    histogram = histogram_for(learned_plan(USUAL))
    serve(histogram, [(Bucket(1, 300, 0), 50)])
    serve(histogram, [(Bucket(1, 1, 1), 500)], DECODE)
    found = summarize_served(histogram)
    assert found.prompt.padding is not None
    assert found.prompt.forecast_padding is not None
    assert found.prompt.padding > found.prompt.forecast_padding * 1.5
    assert found.prompt.forecast_padding < 1.1


def test_padding_is_the_ratio_of_executed_to_needed_compute() -> None:
    histogram, cost = histogram_for(learned_plan(USUAL)), typical_cost(LIMITS.block_size)
    ran = [histogram.count_batch(PROMPT, Bucket(1, query, 0)) for query in (60, 300, 700)]
    real = sum(cost(PROMPT, Bucket(1, query, 0)) for query in (60, 300, 700))
    assert summarize_served(histogram).prompt.padding == pytest.approx(sum(cost(PROMPT, each) for each in ran) / real)


def test_padding_of_absorbed_rows_uses_the_executed_shape() -> None:
    histogram, cost = histogram_for(learned_plan(USUAL)), typical_cost(LIMITS.block_size)
    histogram.add_rows([["decode", [2, 1, 3], [8, 1, 64, True], 7, 0]])
    expected = cost(DECODE, Bucket(8, 1, 64)) / cost(DECODE, Bucket(2, 1, 3))
    assert summarize_served(histogram).decode.padding == pytest.approx(expected)


def test_padding_forecast_is_for_the_executed_batch_sizes() -> None:
    few, many = (Bucket(1, 1, 3), 10), (Bucket(6, 1, 20), 90)
    policy = learned_plan(Traffic(USUAL.prompt, dict((few, many))))
    quiet, busy = histogram_for(policy), histogram_for(policy)
    serve(quiet, [few], DECODE)
    serve(busy, [many], DECODE)
    both = histogram_for(policy).padding[DECODE].forecast
    for histogram in (quiet, busy):
        found = summarize_served(histogram).decode
        assert found.padding == pytest.approx(found.forecast_padding)
        assert found.forecast_padding != pytest.approx(both)


@pytest.mark.parametrize("policy", [EXPONENTIAL, BucketPolicy(strategy=Strategy.OPTIMAL)])
def test_plan_that_was_not_learned_has_no_forecast(policy: BucketPolicy) -> None:
    histogram = histogram_for(policy)
    histogram.count_batch(PROMPT, Bucket(1, 300, 0))
    assert (summarize_served(histogram).prompt.padding, summarize_served(histogram).prompt.forecast_padding) == (
        None,
        None,
    )


@given(
    prompts=st.dictionaries(st.integers(1, 1024), st.integers(1, 30), min_size=1, max_size=12),
    steps=st.dictionaries(
        st.tuples(st.integers(1, 8), st.integers(0, 40)), st.integers(1, 30), min_size=1, max_size=12
    ),
)
def test_repeated_training_traffic_is_padded_as_forecast(
    prompts: dict[int, int], steps: dict[tuple[int, int], int]
) -> None:
    traffic = Traffic(
        {Bucket(1, query, 0): count for query, count in prompts.items()},
        {Bucket(size, 1, size + more): count for (size, more), count in steps.items()},
    )
    histogram = histogram_for(learned_plan(traffic))
    for phase in BucketPhase:
        serve(histogram, traffic.shapes_of(phase).items(), phase)
    for found in (summarize_served(histogram).prompt, summarize_served(histogram).decode):
        assert found.padding == pytest.approx(found.forecast_padding)
        assert found.forecast_padding is not None
        assert found.forecast_padding >= 1


@pytest.mark.parametrize(
    ("policy", "news"),
    [(learned_plan(USUAL), [1, 2, 3, 3, 4]), (EXPONENTIAL, [1, 1, 1, 1, 1])],
)
async def test_report_changes_at_the_minimum_and_at_doubled_prompts(policy: BucketPolicy, news: list[int]) -> None:
    board, histogram, seen = ReportBoard("0" * 64), histogram_for(policy), []
    publisher = CounterPublisher(board)
    for count in (FEWEST_PROMPTS - 1, 1, FEWEST_PROMPTS, FEWEST_PROMPTS, FEWEST_PROMPTS):
        serve(histogram, [(Bucket(1, 100, 0), count)])
        publisher.publish(histogram, RequestCountsReport(), 1.0)
        seen.append(board.report().sequence)
    assert seen == news
