"""The review of a plan before a pod has measured anything (docs/reference/conditions.md, Before a pod runs).

The forecast has bucket counts, gaps and the estimate. A plan question computes the forecast (core/plan_answers.py). The
review compares the estimate with the spec. Only a proven shortfall is a violation: the spec names the model and even
the lowest figures of any source are too high, or a simulation behaves exactly as described. Any other shortfall is only
reported. In TorchCompile the size of graphs is unknown, so the outlook says what opens the gate. Hints are further
sentences for users (docs/how-to/running-vllm.md, Hints).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.core.admission.estimate import Estimate, ForecastTarget, GraphBounds, estimate_plan, forecast_target
from gaudi_operator.core.admission.kv_cache_bounds import captures_graphs, most_kv_blocks
from gaudi_operator.core.plan_answers import PlanQuestion, PlanTooExpensive
from gaudi_operator.core.rendering.runtime_config import (
    execution_mode,
    on_cpu,
    runtime_config,
)
from gaudi_operator.core.resource import Inference, derived
from gaudi_runtime.catalog.models.validated import Validated, last_release_of, validated_by_card
from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.contract.config import Dtype, EngineName, ExecutionMode, QuantizationMethod
from gaudi_runtime.contract.report import BucketPhase, meets, percent
from gaudi_runtime.errors import PlanImpossible, Problem
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_of
from gaudi_runtime.forecast.result import Reason
from gaudi_runtime.forecast.thresholds import gate_sentence
from gaudi_runtime.knobs.speculation import speculation
from gaudi_runtime.planning.coverage import Uncovered, plan_coverage
from gaudi_runtime.planning.kept_plans import kept_plan


@dataclass(frozen=True)
class PlanForecast:
    """The forecast of a plan for `kv_blocks` KV blocks: bucket counts, uncovered batches and estimated costs.

    `estimate` is None if the spec has no target.
    """

    prompt: int
    decode: int
    kv_blocks: int
    uncovered: Uncovered
    estimate: Estimate | None


def forecast_plan(
    inference: Inference, measured_blocks: int | None = None, block_size: int | None = None
) -> PlanForecast | None:
    """Return the forecast for `measured_blocks` KV blocks, or else for the estimated or maximum number.

    `block_size` is the measured number of tokens per block, if any. Returns None if no plan is possible or the plan is
    too expensive. Raises Unanswered.
    """
    with suppress(PlanTooExpensive):
        return cached_forecast(inference, measured_blocks, block_size)
    return None


@derived
def cached_forecast(
    inference: Inference, measured_blocks: int | None = None, block_size: int | None = None
) -> PlanForecast | None:
    """Return the forecast as forecast_plan() does, but raise PlanTooExpensive if the plan is too expensive."""
    # Without @derived, looking up the answer by the whole question would dominate the time of a decision.
    return inference.answers.get(forecast_question(inference, measured_blocks, block_size))


def forecast_question(
    inference: Inference, measured_blocks: int | None = None, block_size: int | None = None
) -> "ForecastQuestion":
    """Return the plan question of the forecast."""
    spec, inputs = inference.spec, inputs_of(runtime_config(inference))
    inputs = replace(
        inputs,
        limits=inputs.limits.model_copy(update={"block_size": block_size}) if block_size else inputs.limits,
        kv_blocks=measured_blocks,
    )
    # The policy is a separate field, so that the cache of answers finds its texts.
    rest = replace(inputs, policy=BucketPolicy())
    return ForecastQuestion(inputs.policy, rest, forecast_target(spec), most_kv_blocks(spec))


@dataclass(frozen=True)
class ForecastQuestion(PlanQuestion[PlanForecast | None]):
    """The question for the forecast of a deployment: a bucket policy and all other inputs."""

    kind = PlanForecast | None
    size = 16 * 1024

    policy: BucketPolicy
    inputs: ForecastInputs
    target: ForecastTarget | None
    most_blocks: int

    def answer(self) -> PlanForecast | None:
        """Compute the estimate, the plan and its gaps."""
        inputs = replace(self.inputs, policy=self.policy)
        found = estimate_plan(inputs, self.target) if self.target else None
        estimated = found.kv_blocks if found else 0
        for blocks in (inputs.kv_blocks or estimated, self.most_blocks):
            # The estimated blocks may be too few for any bucket although a pod may find more.
            with suppress(PlanImpossible):
                plan = kept_plan(inputs.policy, inputs.limits, blocks)
                gaps = plan_coverage(plan, inputs.limits, blocks)
                return PlanForecast(len(plan.prompt), len(plan.decode), blocks, gaps, found)
        return None


def estimated_violation(inference: Inference) -> Problem | None:
    """Return the proven problem that keeps every pod of this spec from serving, or None."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None and found.proven:
        return Problem(found.problem.reason, _no_room("does", found.problem, inference))
    if inference.spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    short = _shortfalls(inference, found, at_best=True)
    return Problem("ThresholdsUnreachable", f"{short} This is known from {found.source}.") if short else None


def plan_has_gaps(inference: Inference) -> Problem | None:
    """Return the problem of a plan in which batches have no bucket, unless spec.bucketing.allowGaps permits that."""
    spec, found = inference.spec, forecast_plan(inference)
    if found is None or spec.bucketing.allow_gaps or not spec.warmup.enabled:
        return None
    gaps = found.uncovered.sentence()
    if gaps is None:
        return None
    return Problem(
        "BucketsMissing",
        f"{gaps}. A request with such a batch would wait for a compile. Add buckets for them to spec.bucketing, or set "
        "spec.bucketing.allowGaps to true.",
    )


def estimated_shortfall(inference: Inference) -> str | None:
    """Return a sentence about an estimated shortfall of the spec that is not proven, or None."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None:
        return _no_room("may", found.problem, inference)
    return _shortfalls(inference, found, at_best=False)


def gate_outlook(inference: Inference) -> str | None:
    """Return what opens the gate if the number of graphs that fit is unknown, or None if it is known or not needed.

    Graph sizes are published only for HPU graphs.
    """
    spec, found = inference.spec, forecast_plan(inference)
    mode = execution_mode(inference)
    if found is None or mode is not ExecutionMode.TORCH_COMPILE or not captures_graphs(inference):
        return None
    without_card = spec.engine.name is EngineName.SIM or on_cpu(spec.accelerator)
    if without_card or spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    phases = (
        (BucketPhase.PROMPT, found.prompt, spec.readiness.min_captured_prompt_percent),
        (BucketPhase.DECODE, found.decode, spec.readiness.min_captured_decode_percent),
    )
    asked = {phase: least for phase, planned, least in phases if planned and least}
    return gate_sentence(asked) if asked else None


def _estimate(inference: Inference) -> Estimate | None:
    found = forecast_plan(inference)
    return found.estimate if found else None


def _no_room(verb: str, problem: Problem, inference: Inference) -> str:
    if problem.reason is Reason.PARALLELISM:
        return f"The model {verb} not fit these ranks: {problem.message}."
    advice = "use more cards, a smaller model or fewer bits"
    return f"The model {verb} not fit: {problem.message}. To give it room, {advice}; {_advisor(inference)}."


def _shortfalls(inference: Inference, found: Estimate, *, at_best: bool) -> str | None:
    """Return a clause for each phase whose threshold is out of reach, and the remedy, or None."""
    readiness = inference.spec.readiness
    phases = (
        ("prompt", found.prompt, readiness.min_captured_prompt_percent),
        ("decode", found.decode, readiness.min_captured_decode_percent),
    )
    short = [
        clause
        for phase, bounds, least in phases
        if bounds is not None and (clause := _shortfall(phase, bounds, least, at_best=at_best))
    ]
    if not short:
        return None
    advice = "give graphs more memory, plan fewer buckets or ask for less"
    return f"spec.readiness {' and '.join(short)}. To make it fit, {advice}; {_advisor(inference)}."


def _advisor(inference: Inference) -> str:
    """Return a reference to gaudi-plan, because the search for a remedy takes too much CPU for a reconcile."""
    identity = inference.identity
    command = f"gaudi-plan forecast --from-cluster {identity.name} -n {identity.namespace}"
    return f"`{command}` looks for the smallest change"


def _shortfall(phase: str, bounds: GraphBounds, least: int, *, at_best: bool) -> str | None:
    count = bounds.at_best if at_best else bounds.expected
    if meets(count, bounds.planned, least) is not False:
        return None
    word, reach = "at most" if at_best else "about", percent(count, bounds.planned)
    return f"asks for {least} % of the {phase} graphs, but {word} {count} of {bounds.planned} ({reach} %) fit"


_BITS = {
    QuantizationMethod.INC: "fp8",
    QuantizationMethod.FP8: "fp8",
    QuantizationMethod.MODELOPT: "fp8",
    QuantizationMethod.AWQ: "int4",
    QuantizationMethod.GPTQ: "int4",
}
_DTYPES = {Dtype.BFLOAT16: "bf16", Dtype.FLOAT16: "fp16", Dtype.FLOAT32: "fp32"}


def plan_hints(inference: Inference) -> tuple[str, ...]:
    """Return hints about the execution mode of a stored revision and about a vLLM engine, as sentences."""
    spec = inference.spec
    default = tuple(_changed_default(inference))
    if spec.engine.name is not EngineName.VLLM:
        return default
    on_card = () if on_cpu(spec.accelerator) else (*_vision(spec), *_validation(inference))
    return (*default, *_drafts(spec), *on_card)


def _changed_default(inference: Inference) -> Iterator[str]:
    """Yield a sentence if the next revision will change the mode because the default has changed."""
    kept, coming = inference.kept_mode, execution_mode(replace(inference, kept_mode=None))
    if kept is not None and inference.spec.engine.execution_mode is None and kept is not coming:
        runs = as_in_spec(kept)
        yield (
            f"spec.engine.executionMode is left out and its pods run in {runs}, the default when their revision was "
            f"made: the next revision takes {as_in_spec(coming)}. To keep {runs}, write it, which restarts nothing."
        )


def _drafts(spec: GaudiInferenceSpec) -> Iterator[str]:
    if speculation(spec.engine.settings):
        yield "Drafts are for greedy requests: those with a temperature, logprobs or a grammar are answered 400."


def _vision(spec: GaudiInferenceSpec) -> Iterator[str]:
    if spec.model.items_per_prompt.image or spec.model.items_per_prompt.video:
        yield (
            "Vision buckets are known once a pod has loaded the model: before that they are counted in no plan and no "
            "estimate."
        )


def _validation(inference: Inference) -> Iterator[str]:
    spec = inference.spec
    model, card = _model(spec), spec.accelerator.generation.value
    if model is None:
        return
    if last := last_release_of(model):
        yield f"{model} cannot start: vLLM {last} is the last release that serves it. Choose another model."
        return
    published = validated_by_card(model)
    if card in published:
        yield from _differences(inference, published[card])
    else:
        elsewhere = f"{', '.join(published)} and not on {card}" if published else "no card"
        yield f"{model} is published as validated on {elsewhere}; it may work all the same."


def _model(spec: GaudiInferenceSpec) -> str | None:
    """Return the model's repository, or a served name if the published lists contain it."""
    if source := spec.model.source.hugging_face:
        return source.repo
    return next((name for name in spec.model.served_names if validated_by_card(name) or last_release_of(name)), None)


def _differences(inference: Inference, published: Validated) -> Iterator[str]:
    spec = inference.spec
    by = "" if published.by_plugin else ", by a release before vLLM's plugin for Gaudi,"
    about = f"{published.model} is published as validated on {published.card}{by} with"
    if spec.parallelism.tensor not in published.tensor:
        sizes = " or ".join(map(str, published.tensor))
        yield f"{about} tensor parallel {sizes}; spec.parallelism.tensor is {spec.parallelism.tensor}."
    datatype = _datatype(spec)
    if datatype is not None and datatype not in published.datatypes:
        yield f"{about} {' or '.join(published.datatypes)}, not {datatype}."
    if execution_mode(inference) in (ExecutionMode.HPU_GRAPHS, ExecutionMode.LAZY):
        for name, value in published.settings.items():
            if name not in spec.engine.settings:
                yield f'{about} the setting {name}: "{value}", which spec.engine.settings leaves out.'


def _datatype(spec: GaudiInferenceSpec) -> str | None:
    """Return the data type, or None if the checkpoint decides or a method covers several."""
    if quantization := spec.model.quantization:
        return _BITS.get(quantization.method)
    return _DTYPES.get(spec.model.dtype)
