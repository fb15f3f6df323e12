"""The forecast of a spec's plan before a pod runs: bucket counts, gaps and the estimate (gaudi_runtime/forecast/).

A plan question computes the forecast (core/plan_answers.py).
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from gaudi_operator.core.admission.estimate import Estimate, ForecastTarget, estimate_plan, forecast_target
from gaudi_operator.core.admission.kv_cache_bounds import max_kv_blocks
from gaudi_operator.core.plan_answers import PlanQuestion, PlanTooExpensive
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.core.resource import Inference, cache_on_inference
from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_from_config
from gaudi_runtime.planning.coverage import PlanCoverage, plan_coverage
from gaudi_runtime.planning.kept_plans import kept_plan


@dataclass(frozen=True)
class PlanForecast:
    """The forecast of a spec's plan for `kv_blocks` KV blocks: bucket counts, uncovered batches and estimated costs.

    `estimate` is None if the spec has no target.
    """

    prompt_buckets: int
    decode_buckets: int
    kv_blocks: int
    plan_coverage: PlanCoverage
    estimate: Estimate | None


def forecast_plan(
    inference: Inference, measured_blocks: int | None = None, block_size: int | None = None
) -> PlanForecast | None:
    """Return the forecast of a spec for `measured_blocks` KV blocks.

    Without measured blocks, the forecast is for the estimated or the maximum number. `block_size` is the measured
    number of tokens per block, if any. Returns None if no plan is possible or the plan is too expensive. Raises
    AnswerNotComputed.
    """
    with suppress(PlanTooExpensive):
        return cached_forecast(inference, measured_blocks, block_size)
    return None


@cache_on_inference
def cached_forecast(
    inference: Inference, measured_blocks: int | None = None, block_size: int | None = None
) -> PlanForecast | None:
    """Return the cached forecast of a spec. Raises PlanTooExpensive if its plan is too expensive."""
    # This lookup needs @derived on the question. Otherwise comparing the whole question would take most of the time of
    # a decision.
    return inference.answers.get(forecast_question(inference, measured_blocks, block_size))


def forecast_question(
    inference: Inference, measured_blocks: int | None = None, block_size: int | None = None
) -> "ForecastQuestion":
    """Return the plan question that has the forecast of a spec as its answer."""
    spec, inputs = inference.spec, inputs_from_config(runtime_config(inference))
    inputs = replace(
        inputs,
        limits=inputs.limits.model_copy(update={"block_size": block_size}) if block_size else inputs.limits,
        kv_blocks=measured_blocks,
    )
    # The cache of answers replaces long texts in the fields of a question by digests. Therefore the policy, which has
    # such texts, is a field of its own.
    other_inputs = replace(inputs, policy=BucketPolicy())
    return ForecastQuestion(inputs.policy, other_inputs, forecast_target(spec), max_kv_blocks(spec))


@dataclass(frozen=True)
class ForecastQuestion(PlanQuestion[PlanForecast | None]):
    """The plan question for the forecast of a spec. It consists of the bucket policy and all other inputs."""

    kind = PlanForecast | None
    size = 16 * 1024

    policy: BucketPolicy
    inputs: ForecastInputs
    target: ForecastTarget | None
    max_blocks: int

    def answer(self) -> PlanForecast | None:
        """Compute the estimate, the plan, and the gaps between the buckets of the plan."""
        inputs = replace(self.inputs, policy=self.policy)
        estimate = estimate_plan(inputs, self.target) if self.target else None
        estimated_blocks = estimate.kv_blocks if estimate else 0
        for blocks in (inputs.kv_blocks or estimated_blocks, self.max_blocks):
            # The estimate may be too low for any bucket. Then use the upper bound, because a pod may find more blocks.
            with suppress(PlanImpossible):
                plan = kept_plan(inputs.policy, inputs.limits, blocks)
                coverage = plan_coverage(plan, inputs.limits, blocks)
                return PlanForecast(len(plan.prompt), len(plan.decode), blocks, coverage, estimate)
        return None
