"""What is known of a spec's plan before a pod has measured anything (docs/conditions.md, Before a pod runs).

First the outlook: counts of buckets, gaps and the estimate. It is kept, because every pass asks again: small answers
for long, whole plans only for the few that are in question. Then the smallest change that would make the spec fit, one
setting at a time (docs/memory.md, Advice), and what the estimate says against it: a refusal where it is proven, a doubt
where the card may yet do better. Proven is what holds for the lowest figures that any source gives, of a model that the
spec names; and all of a simulation, which does what its description says. A doubt is told and refuses nothing.
Last the hints, which speak against nothing: sentences, each whole (docs/running-vllm.md, Hints).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import Readiness, Shortfall
from gaudi_operator.core.admission.bounds import most_kv_blocks
from gaudi_operator.core.admission.cache import Answers, text_bytes
from gaudi_operator.core.admission.estimate import Estimate, Fitting, Subject, estimate, subject
from gaudi_operator.core.children.runtime_config import (
    bucket_policy,
    execution_mode,
    on_cpu,
    plan_limits,
    runtime_config,
)
from gaudi_operator.core.resource import Inference
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.coverage import Uncovered, uncovered
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.catalog.cards import card_named
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.validated import Validated, validated
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.config import Dtype, EngineName, ExecutionMode, QuantizationMethod
from gaudi_runtime.contract.report import meets, percent
from gaudi_runtime.errors import PlanImpossible, Problem
from gaudi_runtime.forecast.advice import advise, sentence
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_of
from gaudi_runtime.forecast.result import Reason, Thresholds

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


ROOM = Thresholds(0, 0)
"""Nothing but room for the model and one sequence."""

_SENTENCES: Answers[str] = Answers(8 * 2**20)


def room_advice(inference: Inference) -> str:
    """What gives the model room, as a part of a sentence; empty when no single change does."""
    return _advice(inference, ROOM)


def graph_advice(inference: Inference, readiness: Readiness) -> str:
    """What lets the asked-for graphs fit as expected, as a part of a sentence; empty when no single change does."""
    wanted = Thresholds(readiness.min_captured_prompt_percent, readiness.min_captured_decode_percent)
    return _advice(inference, wanted)


def _advice(inference: Inference, wanted: Thresholds) -> str:
    about = subject(inference.spec)
    return "" if about is None else _changes(forecast_inputs(inference), about, wanted)


def _changes(inputs: ForecastInputs, about: Subject, wanted: Thresholds) -> str:
    """Kept, because every pass asks again and a large plan takes seconds."""
    return _SENTENCES.get(
        (inputs, about, wanted), lambda: _work_out(inputs, about, wanted), lambda _: SMALL + text_bytes(inputs.policy)
    )


def _work_out(inputs: ForecastInputs, about: Subject, wanted: Thresholds) -> str:
    shape = known_shape(about.model)
    return "" if shape is None else sentence(advise(inputs, shape, card_named(about.card), wanted))


def estimated_violation(inference: Inference) -> Problem | None:
    """What is proven to keep every pod of this spec from serving; None when a pod may find otherwise."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None and found.proven:
        return Problem(found.problem.reason, _no_room("does", found.problem, inference))
    if inference.spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN:
        return None
    short = _shortfalls(inference, found, at_best=True)
    return Problem("ThresholdsUnreachable", f"{short} This is known from {found.source}.") if short else None


def doubt(inference: Inference) -> str | None:
    """What an estimate says against the spec without proof, as a sentence; None when it says nothing."""
    found = _estimate(inference)
    if found is None:
        return None
    if found.problem is not None:
        return _no_room("may", found.problem, inference)
    return _shortfalls(inference, found, at_best=False) or None


def _estimate(inference: Inference) -> Estimate | None:
    found = outlook(inference)
    return None if found is None else found.estimate


def _no_room(verb: str, problem: Problem, inference: Inference) -> str:
    if problem.reason is Reason.PARALLELISM:
        return f"The model {verb} not fit these ranks: {problem.message}."
    advice = room_advice(inference) or "use more cards, a smaller model or fewer bits"
    return f"The model {verb} not fit: {problem.message}. To give it room, {advice}."


def _shortfalls(inference: Inference, found: Estimate, *, at_best: bool) -> str:
    """A clause for each phase whose threshold is out of reach, and what to change; empty when both are within it."""
    readiness = inference.spec.readiness
    phases = (
        ("prompt", found.prompt, readiness.min_captured_prompt_percent),
        ("decode", found.decode, readiness.min_captured_decode_percent),
    )
    short = [
        clause
        for phase, fitting, least in phases
        if fitting is not None and (clause := _shortfall(phase, fitting, least, at_best=at_best))
    ]
    if not short:
        return ""
    advice = graph_advice(inference, readiness) or "give graphs more memory, plan fewer buckets or ask for less"
    return f"spec.readiness {' and '.join(short)}. To make it fit, {advice}."


def _shortfall(phase: str, fitting: Fitting, least: int, *, at_best: bool) -> str | None:
    count = fitting.at_best if at_best else fitting.expected
    if meets(count, fitting.planned, least) is not False:
        return None
    word, reach = "at most" if at_best else "about", percent(count, fitting.planned)
    return f"asks for {least} % of the {phase} graphs, but {word} {count} of {fitting.planned} ({reach} %) fit"


_BITS = {
    QuantizationMethod.INC: "fp8",
    QuantizationMethod.FP8: "fp8",
    QuantizationMethod.MODELOPT: "fp8",
    QuantizationMethod.AWQ: "int4",
    QuantizationMethod.GPTQ: "int4",
}
_DTYPES = {Dtype.BFLOAT16: "bf16", Dtype.FLOAT16: "fp16", Dtype.FLOAT32: "fp32"}


def hints(spec: GaudiInferenceSpec) -> tuple[str, ...]:
    """Sentences about a vllm engine; none for the others."""
    if spec.engine.name is not EngineName.VLLM:
        return ()
    return (*_split_prompts(spec), *(() if on_cpu(spec.accelerator) else _validation(spec)))


def _split_prompts(spec: GaudiInferenceSpec) -> Iterator[str]:
    limits = plan_limits(spec)
    split = spec.engine.chunked_prefill and limits.max_num_batched_tokens < limits.max_model_len
    if split and not limits.prefix_caching:
        yield (
            f"Prompts above {limits.max_num_batched_tokens} tokens are split, and the cached context of their later "
            "pieces is planned only with spec.engine.prefixCaching: without it they meet cold shapes."
        )
    if "--speculative-config" in spec.engine.settings:
        yield "The decode shapes of speculative decoding are not in the plan: the first requests meet cold shapes."


def _validation(spec: GaudiInferenceSpec) -> Iterator[str]:
    model, card = _model(spec), spec.accelerator.generation.value
    if model is None:
        return
    published = validated(model)
    if card in published:
        yield from _differences(spec, published[card])
    else:
        elsewhere = f"{', '.join(published)} and not on {card}" if published else "no card"
        yield f"{model} is published as validated on {elsewhere}; it may work all the same."


def _model(spec: GaudiInferenceSpec) -> str | None:
    """The repository; otherwise a served name, but only one that is in the lists."""
    if source := spec.model.source.hugging_face:
        return source.repo
    return next((name for name in spec.model.served_names if validated(name)), None)


def _differences(spec: GaudiInferenceSpec, published: Validated) -> Iterator[str]:
    about = f"{published.model} is published as validated on {published.card} with"
    if spec.parallelism.tensor not in published.tensor:
        sizes = " or ".join(map(str, published.tensor))
        yield f"{about} tensor parallel {sizes}; spec.parallelism.tensor is {spec.parallelism.tensor}."
    datatype = _datatype(spec)
    if datatype is not None and datatype not in published.datatypes:
        yield f"{about} {' or '.join(published.datatypes)}, not {datatype}."
    if execution_mode(spec) in (ExecutionMode.HPU_GRAPHS, ExecutionMode.LAZY):
        for name, value in published.settings.items():
            if name not in spec.engine.settings:
                yield f'{about} the setting {name}: "{value}", which spec.engine.settings leaves out.'


def _datatype(spec: GaudiInferenceSpec) -> str | None:
    """None where the checkpoint decides, or where a method stands for several."""
    if quantization := spec.model.quantization:
        return _BITS.get(quantization.method)
    return _DTYPES.get(spec.model.dtype)
