"""The comparison of the serving plan with a plan that is learned from this server's traffic.

Both plans are scored on the same traffic. `kubectl gaudi plan learn` proposes the same `learned_policy`, so its plan is
the plan that was compared here.
"""

from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.base import WireModel
from gaudi_runtime.contract.bucketing import MOST_TEXT, BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase, PlanAdvice, PlanCost
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.optimal.cost import PlanScore, score_plan, typical_cost
from gaudi_runtime.planning.optimal.fewest_graphs import TOLERANCE
from gaudi_runtime.planning.planner import plan_of_device
from gaudi_runtime.traffic.histogram import Traffic, format_traffic, parse_traffic
from gaudi_runtime.warmup.estimate import Pace

LEAST_SAVED = 1 / 3
"""Share of the warm-up that a learned plan must save. Less is not worth a rollout."""


class ComparisonInput(WireModel):
    """The input of a plan comparison: policy, limits, KV blocks, warm-up pace and traffic of a server."""

    policy: BucketPolicy
    limits: Limits
    blocks: DeviceBlocks
    pace: Pace
    traffic: str


def learned_policy(policy: BucketPolicy, traffic: Traffic, budget: OptimalSettings | None = None) -> BucketPolicy:
    """Return the policy to compare: strategy `Optimal` with this traffic, within `budget` if it is set.

    Raises ConfigError if the traffic is too long for a policy.
    """
    text = format_traffic(traffic)
    if len(text) > MOST_TEXT:
        raise ConfigError(f"the traffic takes more than {MOST_TEXT} bytes, even with rounded sizes")
    settings = budget or policy.optimal or OptimalSettings()
    optimal_settings = settings.model_copy(update={"traffic": text})
    return policy.model_copy(update={"strategy": Strategy.OPTIMAL, "optimal": optimal_settings, "file": None})


def is_comparable(limits: Limits) -> bool:
    """Return True if a learned plan can be compared: no slices and no drafts."""
    return limits.sliding_window_slices is None and limits.draft_tokens is None


def advise(question: ComparisonInput) -> PlanAdvice | None:
    """Compare the serving plan with a learned plan. Return None if the learned plan does not save enough.

    Raises PlanImpossible or ConfigError.
    """
    traffic = parse_traffic(question.traffic)
    serving_plan = _make_plan(question.policy, question)
    learned_plan = _make_plan(learned_policy(question.policy, traffic), question)
    serving_scores = _score_phases(serving_plan, traffic, question)
    learned_scores = _score_phases(learned_plan, traffic, question)
    learned_seconds = question.pace.seconds_of(learned_plan, question.blocks.size)
    advice = PlanAdvice(
        now=_plan_cost(serving_plan, serving_scores, question.pace.seconds),
        learned=_plan_cost(learned_plan, learned_scores, learned_seconds),
    )
    pads_no_more = all(_pads_no_more(serving_scores[phase], learned_scores[phase]) for phase in BucketPhase)
    return advice if pads_no_more and _saves_enough(advice) else None


def _make_plan(policy: BucketPolicy, question: ComparisonInput) -> BucketPlan:
    return plan_of_device(policy, question.limits, question.blocks)


def _score_phases(plan: BucketPlan, traffic: Traffic, question: ComparisonInput) -> dict[BucketPhase, PlanScore]:
    block_sizes = {BucketPhase.PROMPT: question.blocks.size, BucketPhase.DECODE: question.blocks.decode_size}
    return {phase: score_plan(plan, phase, traffic, typical_cost(size)) for phase, size in block_sizes.items()}


def _plan_cost(plan: BucketPlan, scores: dict[BucketPhase, PlanScore], warmup_seconds: float) -> PlanCost:
    return PlanCost(
        graphs=len(plan.prompt) + len(plan.decode),
        warmup_seconds=warmup_seconds,
        prompt_padding=scores[BucketPhase.PROMPT].padding,
        decode_padding=scores[BucketPhase.DECODE].padding,
    )


def _saves_enough(advice: PlanAdvice) -> bool:
    return advice.learned.warmup_seconds <= advice.now.warmup_seconds * (1 - LEAST_SAVED)


def _pads_no_more(serving: PlanScore, learned: PlanScore) -> bool:
    """Return True if the learned plan does not increase the padding of a phase.

    Return False if the plans cover different parts of the traffic, because their padding is then not comparable.
    """
    if serving.padding is None or learned.padding is None:
        return False
    return serving.coverage == learned.coverage and learned.padding <= serving.padding * (1 + TOLERANCE)
