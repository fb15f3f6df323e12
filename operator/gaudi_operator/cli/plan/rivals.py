"""The plans of all strategies under the same limits."""

from collections.abc import Mapping

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import PlanImpossible

Outcome = BucketPlan | str


def rival_plans(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Mapping[Strategy, Outcome]:
    """A plan of each strategy that needs no traffic, or the sentence that says why it has none.

    Strategy file takes part where the policy has a bucket file; ranges of the policy count where a strategy reads them.
    """
    strategies = [Strategy.EXPONENTIAL, Strategy.LINEAR, Strategy.PADDING_AWARE]
    if policy.file is not None:
        strategies.append(Strategy.FILE)
    return {each: outcome(policy.model_copy(update={"strategy": each}), limits, kv_blocks) for each in strategies}


def outcome(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Outcome:
    """The plan of a policy, or the sentence that says why it has none."""
    try:
        return make_plan(policy, limits, kv_blocks)
    except PlanImpossible as error:
        return str(error)
