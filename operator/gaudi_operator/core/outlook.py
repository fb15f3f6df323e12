"""What is known of a spec's plan before a pod has measured anything (docs/conditions.md, Before a pod runs).

Kept, because every pass asks again: small answers for long, whole plans only for the few that are in question.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from gaudi_operator.core.estimate import Estimate, estimate
from gaudi_operator.core.fit import most_kv_blocks
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.runtime_config import bucket_policy, plan_limits, runtime_config
from gaudi_operator.core.subject import Subject, subject
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.coverage import Uncovered, uncovered
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_of


@dataclass(frozen=True)
class Outlook:
    """A plan for `kv_blocks` KV blocks: its numbers of buckets, what they leave without one, and what they take.

    `estimate` is None where no described card and known model are spoken of.
    """

    prompt: int
    decode: int
    kv_blocks: int
    uncovered: Uncovered
    estimate: Estimate | None


def outlook(inference: Inference, measured_blocks: int | None = None) -> Outlook | None:
    """The outlook on a device with `measured_blocks` KV blocks; otherwise with as many as are estimated, or else
    with the most that can be used. None when no plan is possible.
    """
    inputs = replace(forecast_inputs(inference), kv_blocks=measured_blocks)
    return _outlook(inputs, subject(inference.spec), most_kv_blocks(inference.spec))


def forecast_inputs(inference: Inference) -> ForecastInputs:
    """The deployment as forecasts see it, for one of its cards."""
    inputs = inputs_of(runtime_config(inference))
    return replace(inputs, tokens_follow_length=inference.spec.engine.max_num_batched_tokens is None)


def why_impossible(inference: Inference) -> str | None:
    """The planner's sentence, without a full stop, that says why there is no plan; None when there is one."""
    spec = inference.spec
    try:
        plan_of(bucket_policy(spec), plan_limits(spec), most_kv_blocks(spec))
    except PlanImpossible as error:
        return str(error)
    return None


@lru_cache(maxsize=8)
def plan_of(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
    """The whole plan. Raises PlanImpossible with the planner's sentence."""
    return make_plan(policy, limits, kv_blocks)


@lru_cache(maxsize=1024)
def _outlook(inputs: ForecastInputs, about: Subject | None, most_blocks: int) -> Outlook | None:
    found = estimate(inputs, about) if about is not None else None
    estimated = found.kv_blocks if found is not None else 0
    for blocks in (inputs.kv_blocks or estimated, most_blocks):
        with suppress(PlanImpossible):
            plan = plan_of(inputs.policy, inputs.limits, blocks)
            return Outlook(len(plan.prompt), len(plan.decode), blocks, uncovered(plan, inputs.limits, blocks), found)
    return None
