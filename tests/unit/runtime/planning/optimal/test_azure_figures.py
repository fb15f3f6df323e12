"""The gain of strategy optimal on the Azure conversation trace: learned on one half, judged on the other.

The figures of the exponential strategy are also fixed, so that a change of either strategy is visible.
"""

from functools import cache

import pytest

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import price_in_graphs, score_plan_cost
from gaudi_runtime.planning.optimal.optimizer import Optimizer
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic
from tests.support.azure_trace import halves, prompts
from tests.support.token_cost import token_cost

PROMPT = BucketPhase.PROMPT
COST = token_cost(block_size=128)


@cache
def learned_and_judged() -> tuple[Traffic, Traffic]:
    earlier, later = halves()
    return prompts(earlier), prompts(later)


def limits(tokens: int) -> Limits:
    return Limits(max_model_len=tokens, max_num_seqs=64, max_num_batched_tokens=tokens)


def exponential(tokens: int) -> BucketPlan:
    return make_plan(BucketPolicy(strategy=Strategy.EXPONENTIAL), limits(tokens), kv_blocks=3000)


def padding(plan: BucketPlan) -> float:
    verdict = score_plan_cost(plan, PROMPT, learned_and_judged()[1], COST)
    assert verdict.coverage == 1.0
    assert verdict.padding is not None
    return verdict.padding


def optimal(tokens: int, graphs: int) -> BucketPlan:
    optimizer = Optimizer(learned_and_judged()[0], limits(tokens), 3000, COST)
    prompt = optimizer.choose((PROMPT,), price_in_graphs, graphs, "graphs")[PROMPT]
    assert len(prompt) == graphs
    return BucketPlan(prompt, ())


@pytest.mark.parametrize(("tokens", "graphs", "share"), [(8192, 12, 0.66), (14_080, 13, 0.58), (16_384, 14, 0.52)])
def test_optimal_pads_less_than_exponential_with_as_many_graphs(tokens: int, graphs: int, share: float) -> None:
    rival = exponential(tokens)
    assert len(rival.prompt) == graphs
    assert padding(optimal(tokens, graphs)) - 1 <= share * (padding(rival) - 1)


@pytest.mark.parametrize(("tokens", "graphs"), [(8192, 9), (14_080, 10), (16_384, 11)])
def test_optimal_pads_less_with_three_quarters_of_the_graphs(tokens: int, graphs: int) -> None:
    rival = exponential(tokens)
    assert graphs == -(-len(rival.prompt) * 3 // 4)
    assert padding(optimal(tokens, graphs)) < padding(rival)


@pytest.mark.parametrize(("tokens", "plain"), [(8192, 1.1392), (14_080, 1.1281), (16_384, 1.1240)])
def test_plan_with_smoothing_pads_less_than_without(tokens: int, plain: float) -> None:
    graphs = len(exponential(tokens).prompt)
    assert padding(optimal(tokens, graphs)) < plain - 0.004


def test_padding_of_exponential_with_12_graphs_is_1_2153() -> None:
    assert padding(exponential(8192)) == pytest.approx(1.2153, abs=5e-5)
