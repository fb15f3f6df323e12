"""The savings of a learned plan, compared with the current plan on the same traffic."""

import pytest

from gaudi_runtime.contract.bucketing import AttentionSlices, BucketPolicy, OptimalSettings, Strategy
from gaudi_runtime.contract.report import PlanAdvice
from gaudi_runtime.learning.comparison import ComparisonInput, advise, is_comparable, learned_policy
from gaudi_runtime.planning.optimal.fewest_graphs import TOLERANCE
from gaudi_runtime.planning.planner import plan_of_device
from gaudi_runtime.traffic.histogram import parse_traffic
from tests.support.policies import EXPONENTIAL
from tests.unit.runtime.learning.questions import BLOCKS, BUCKET_SECONDS, LIMITS, TRAFFIC, question

MET = parse_traffic(TRAFFIC)
LEARNED = plan_of_device(learned_policy(EXPONENTIAL, MET), LIMITS, BLOCKS)
SERVING = plan_of_device(EXPONENTIAL, LIMITS, BLOCKS)
LEARNED_SECONDS = BUCKET_SECONDS * (len(LEARNED.prompt) + len(LEARNED.decode))
MISSES_LONG_PROMPTS = "(1, 1024, 0)\n(64, 1, 2048)\n"
EXACT = "".join(f"(1, {700 + 9 * at}, 0)\n" for at in range(1, 40)) + "".join(
    f"({sequences}, 1, {9 * sequences})\n" for sequences in range(1, 8)
)
"""Buckets that equal the served shapes, and no others."""


def advice_for(asked: ComparisonInput) -> PlanAdvice:
    advice = advise(asked)
    assert advice is not None
    return advice


def test_advice_has_graphs_seconds_and_padding_of_both_plans() -> None:
    advice = advice_for(question())
    assert advice.now.graphs == len(SERVING.prompt) + len(SERVING.decode)
    assert advice.learned.graphs == len(LEARNED.prompt) + len(LEARNED.decode) < advice.now.graphs / 3
    assert (advice.now.warmup_seconds, advice.learned.warmup_seconds) == (1000.0, LEARNED_SECONDS)
    for now, learned in (
        (advice.now.prompt_padding, advice.learned.prompt_padding),
        (advice.now.decode_padding, advice.learned.decode_padding),
    ):
        assert now is not None
        assert learned is not None
        assert 1 < learned <= now * (1 + TOLERANCE)


@pytest.mark.parametrize(("more", "advised"), [(0.0, True), (-0.1, False)])
def test_advice_requires_saving_a_third_of_the_warm_up(more: float, advised: bool) -> None:
    assert (advise(question(LEARNED_SECONDS * 1.5 + more)) is not None) == advised


def test_warm_up_seconds_outside_of_buckets_are_not_saved() -> None:
    seconds = LEARNED_SECONDS * 3
    assert advise(question(seconds)) is not None
    assert advise(question(seconds + 1000, other_seconds=1000)) is None


def test_plan_with_less_padding_than_the_learned_one_is_kept() -> None:
    assert advise(question(policy=BucketPolicy(strategy=Strategy.FILE, file=EXACT))) is None


@pytest.mark.parametrize("phase", ["prompt", "decode"])
def test_advice_requires_less_padding_in_both_phases(phase: str) -> None:
    mine, other = (
        [line for line in EXACT.splitlines() if (", 1, " in line) == (decode == "decode")]
        for decode in (phase, "decode" if phase == "prompt" else "prompt")
    )
    wide = ["(64, 1, 2048)"] if phase == "prompt" else ["(1, 4096, 0)"]
    both = BucketPolicy(strategy=Strategy.FILE, file="\n".join([*mine, *other]))
    one = BucketPolicy(strategy=Strategy.FILE, file="\n".join([*mine, *wide]))
    none = BucketPolicy(strategy=Strategy.FILE, file="(1, 4096, 0)\n(64, 1, 2048)")
    assert [advise(question(policy=policy)) is not None for policy in (both, one, none)] == [False, False, True]


def test_paddings_of_different_traffic_are_not_compared() -> None:
    policy = BucketPolicy(strategy=Strategy.FILE, file=MISSES_LONG_PROMPTS)
    assert advise(question(policy=policy)) is None


def test_plan_learned_from_the_same_traffic_gets_no_advice() -> None:
    asked = question(LEARNED_SECONDS, policy=learned_policy(EXPONENTIAL, MET))
    assert advise(asked) is None


def test_learned_policy_keeps_the_budget_of_the_policy() -> None:
    known = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=OptimalSettings(prompt_graphs=3, traffic="prompt 1 9 0 1"))
    learned = learned_policy(known, MET).optimal
    assert learned is not None
    assert learned.prompt_graphs == 3
    assert parse_traffic(learned.traffic or "") == MET


def test_learned_policy_has_no_budget_by_default() -> None:
    learned = learned_policy(EXPONENTIAL, MET).optimal
    assert learned is not None
    assert learned.model_dump(exclude={"traffic"}, exclude_none=True) == {}


@pytest.mark.parametrize(
    ("limits", "comparable"),
    [({}, True), ({"sliding_window_slices": AttentionSlices()}, False), ({"draft_tokens": 3}, False)],
    ids=["usual", "slices", "drafts"],
)
def test_plans_that_optimal_cannot_replace_are_not_compared(limits: dict[str, object], comparable: bool) -> None:
    assert is_comparable(LIMITS.model_copy(update=limits)) == comparable
