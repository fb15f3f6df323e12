"""Hints about a spec: its execution mode, its draft tokens, and whether the model is validated on the card.

Hints are part of the message of the condition PlanAccepted. They never refuse a spec (docs/how-to/running-vllm.md,
Hints).
"""

from collections.abc import Iterator
from dataclasses import replace

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.rendering.execution_mode import execution_mode, runs_on_cpu
from gaudi_operator.core.resource import Inference
from gaudi_runtime.catalog.models.validated import ValidatedModel, last_supporting_release, validations_by_card
from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.config import Dtype, EngineName, ExecutionMode, QuantizationMethod
from gaudi_runtime.knobs.speculation import read_speculation

_BITS = {
    QuantizationMethod.INC: "fp8",
    QuantizationMethod.FP8: "fp8",
    QuantizationMethod.MODELOPT: "fp8",
    QuantizationMethod.AWQ: "int4",
    QuantizationMethod.GPTQ: "int4",
}


_DTYPES = {Dtype.BFLOAT16: "bf16", Dtype.FLOAT16: "fp16", Dtype.FLOAT32: "fp32"}


def plan_hints(inference: Inference) -> tuple[str, ...]:
    """Return hints as sentences: about the execution mode of a stored revision, and about a vLLM engine."""
    spec = inference.spec
    default = tuple(_execution_mode_hints(inference))
    if spec.engine.name is not EngineName.VLLM:
        return default
    on_card = () if runs_on_cpu(spec.accelerator) else (*_vision_hints(spec), *_validation_hints(inference))
    return (*default, *_speculation_hints(spec), *on_card)


def _execution_mode_hints(inference: Inference) -> Iterator[str]:
    """Yield a sentence if the default execution mode has changed and the next revision will use the new default."""
    kept, coming = inference.kept_mode, execution_mode(replace(inference, kept_mode=None))
    if kept is not None and inference.spec.engine.execution_mode is None and kept is not coming:
        runs = spec_spelling(kept)
        yield (
            f"spec.engine.executionMode is left out. The pods use {runs}, the default when their revision was "
            f"created, but the next revision uses {spec_spelling(coming)}. To keep {runs}, set "
            f"spec.engine.executionMode to {runs}. This restarts no pods."
        )


def _speculation_hints(spec: GaudiInferenceSpec) -> Iterator[str]:
    if read_speculation(spec.engine.settings):
        yield (
            "With speculative decoding, only greedy requests are served. Requests with a temperature, logprobs or a "
            "grammar get status 400."
        )


def _vision_hints(spec: GaudiInferenceSpec) -> Iterator[str]:
    if spec.model.items_per_prompt.image or spec.model.items_per_prompt.video:
        yield (
            "Vision buckets are unknown until a pod has loaded the model. Until then, plans and estimates contain no "
            "vision buckets."
        )


def _validation_hints(inference: Inference) -> Iterator[str]:
    spec = inference.spec
    model, card = _model_name(spec), spec.accelerator.generation.value
    if model is None:
        return
    if last := last_supporting_release(model):
        yield f"{model} cannot start: vLLM {last} is the last release that serves it. Choose another model."
        return
    published = validations_by_card(model)
    if card in published:
        yield from _difference_hints(inference, published[card])
    else:
        elsewhere = f"{', '.join(published)}, but not on {card}" if published else "no card"
        yield f"{model} is published as validated on {elsewhere}. The model may still work on this card."


def _model_name(spec: GaudiInferenceSpec) -> str | None:
    """Return the model's repository, or a served name that is in the published lists of models, or None."""
    if source := spec.model.source.hugging_face:
        return source.repo
    return next(
        (name for name in spec.model.served_names if validations_by_card(name) or last_supporting_release(name)), None
    )


def _difference_hints(inference: Inference, published: ValidatedModel) -> Iterator[str]:
    spec = inference.spec
    by = "" if published.is_in_plugin_list else ", by a release before vLLM's plugin for Gaudi,"
    about = f"{published.model} is published as validated on {published.card}{by} with"
    if spec.parallelism.tensor not in published.tensor:
        sizes = " or ".join(map(str, published.tensor))
        yield f"{about} tensor parallel {sizes}, but spec.parallelism.tensor is {spec.parallelism.tensor}."
    datatype = _datatype(spec)
    if datatype is not None and datatype not in published.datatypes:
        yield f"{about} {' or '.join(published.datatypes)}, but this spec uses {datatype}."
    if execution_mode(inference) in (ExecutionMode.HPU_GRAPHS, ExecutionMode.LAZY):
        for name, value in published.settings.items():
            if name not in spec.engine.settings:
                yield f'{about} {name}: "{value}", but spec.engine.settings does not contain this setting.'


def _datatype(spec: GaudiInferenceSpec) -> str | None:
    """Return the data type, or None if the checkpoint determines it or the quantization method has several."""
    if quantization := spec.model.quantization:
        return _BITS.get(quantization.method)
    return _DTYPES.get(spec.model.dtype)
