"""What is known of a spec's plan before a pod has measured anything (docs/conditions.md, Before a pod runs).

Kept, because every pass asks again: small answers for long, whole plans only for the few that are in question.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from gaudi_operator.core.estimate import Estimate, estimate
from gaudi_operator.core.fit import most_kv_blocks
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.kept import Answers, text_bytes
from gaudi_operator.core.runtime_config import bucket_policy, plan_limits, runtime_config
from gaudi_operator.core.subject import Subject, subject
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.coverage import Uncovered, uncovered
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_of

BYTES_PER_BUCKET = 120
"""As measured: a tuple, its place in the plan and in what finds it; the numbers are shared."""

SMALL = 16 * 1024
"""More bytes than any answer without buckets and its key take, but for the texts of the policy."""

_PLANS: Answers[BucketPlan] = Answers(64 * 2**20)
"""Room for one plan of the most buckets, or hundreds of common ones."""

_POSSIBLE: Answers[bool] = Answers(16 * 2**20)
_OUTLOOKS: Answers["Outlook | None"] = Answers(16 * 2**20)


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
    policy, limits, kv_blocks = bucket_policy(spec), plan_limits(spec), most_kv_blocks(spec)
    try:
        _POSSIBLE.get((policy, limits, kv_blocks), lambda: bool(plan_of(policy, limits, kv_blocks)), _small(policy))
    except PlanImpossible as error:
        return str(error)
    return None


def plan_of(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
    """The whole plan. Raises PlanImpossible with the planner's sentence."""

    def size(plan: BucketPlan | None) -> int:
        buckets = len(plan.prompt) + len(plan.decode) if plan else 0
        return SMALL + text_bytes(policy) + BYTES_PER_BUCKET * buckets

    return _PLANS.get((policy, limits, kv_blocks), lambda: make_plan(policy, limits, kv_blocks), size)


def _outlook(inputs: ForecastInputs, about: Subject | None, most_blocks: int) -> Outlook | None:
    return _OUTLOOKS.get(
        (inputs, about, most_blocks), lambda: _look_out(inputs, about, most_blocks), _small(inputs.policy)
    )


def _look_out(inputs: ForecastInputs, about: Subject | None, most_blocks: int) -> Outlook | None:
    found = estimate(inputs, about) if about is not None else None
    estimated = found.kv_blocks if found is not None else 0
    for blocks in (inputs.kv_blocks or estimated, most_blocks):
        with suppress(PlanImpossible):
            plan = plan_of(inputs.policy, inputs.limits, blocks)
            return Outlook(len(plan.prompt), len(plan.decode), blocks, uncovered(plan, inputs.limits, blocks), found)
    return None


def _small(policy: BucketPolicy) -> Callable[[object], int]:
    """Size of an answer without buckets: that of its key."""
    return lambda _answer: SMALL + text_bytes(policy)
