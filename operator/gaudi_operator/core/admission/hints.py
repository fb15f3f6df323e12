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
    mode_hints = tuple(_execution_mode_hints(inference))
    if spec.engine.name is not EngineName.VLLM:
        return mode_hints
    card_hints = () if runs_on_cpu(spec.accelerator) else (*_vision_hints(spec), *_validation_hints(inference))
    return (*mode_hints, *_speculation_hints(spec), *card_hints)


def _execution_mode_hints(inference: Inference) -> Iterator[str]:
    """Yield a sentence if the default execution mode has changed and the next revision will use the new default."""
    stored_mode, next_mode = inference.stored_mode, execution_mode(replace(inference, stored_mode=None))
    if stored_mode is not None and inference.spec.engine.execution_mode is None and stored_mode is not next_mode:
        mode_name = spec_spelling(stored_mode)
        yield (
            f"spec.engine.executionMode is left out. The pods use {mode_name}, the default when their revision was "
            f"created, but the next revision uses {spec_spelling(next_mode)}. To keep {mode_name}, set "
            f"spec.engine.executionMode to {mode_name}. This restarts no pods."
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
    if last_release := last_supporting_release(model):
        yield f"{model} cannot start: vLLM {last_release} is the last release that serves it. Choose another model."
        return
    validations = validations_by_card(model)
    if card in validations:
        yield from _difference_hints(inference, validations[card])
    else:
        validated_cards = f"{', '.join(validations)}, but not on {card}" if validations else "no card"
        yield f"{model} is published as validated on {validated_cards}. The model may still work on this card."


def _model_name(spec: GaudiInferenceSpec) -> str | None:
    """Return the model's repository, or a served name that is in the published lists of models, or None."""
    if source := spec.model.source.hugging_face:
        return source.repo
    return next(
        (name for name in spec.model.served_names if validations_by_card(name) or last_supporting_release(name)), None
    )


def _difference_hints(inference: Inference, validation: ValidatedModel) -> Iterator[str]:
    spec = inference.spec
    qualifier = "" if validation.is_in_plugin_list else ", by a release before vLLM's plugin for Gaudi,"
    prefix = f"{validation.model} is published as validated on {validation.card}{qualifier} with"
    if spec.parallelism.tensor not in validation.tensor_sizes:
        sizes = " or ".join(map(str, validation.tensor_sizes))
        yield f"{prefix} tensor parallel {sizes}, but spec.parallelism.tensor is {spec.parallelism.tensor}."
    datatype = _datatype(spec)
    if datatype is not None and datatype not in validation.datatypes:
        yield f"{prefix} {' or '.join(validation.datatypes)}, but this spec uses {datatype}."
    if execution_mode(inference) in (ExecutionMode.HPU_GRAPHS, ExecutionMode.LAZY):
        for name, value in validation.settings.items():
            if name not in spec.engine.settings:
                yield f'{prefix} {name}: "{value}", but spec.engine.settings does not contain this setting.'


def _datatype(spec: GaudiInferenceSpec) -> str | None:
    """Return the data type, or None if the checkpoint determines it or the quantization method has several."""
    if quantization := spec.model.quantization:
        return _BITS.get(quantization.method)
    return _DTYPES.get(spec.model.dtype)
