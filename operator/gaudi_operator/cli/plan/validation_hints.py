"""Hints for `gaudi-plan forecast`: whether the model is published as validated on the card of the spec."""

from collections.abc import Iterator

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.rendering.runtime_config import runs_vllm_on_card, runtime_config_execution_mode
from gaudi_runtime.catalog.models.validated import ValidatedModel, last_release_for_validated_model, validations_by_card
from gaudi_runtime.contract.config import Dtype, ExecutionMode, QuantizationMethod

_BITS = {
    QuantizationMethod.INC: "fp8",
    QuantizationMethod.FP8: "fp8",
    QuantizationMethod.MODELOPT: "fp8",
    QuantizationMethod.AWQ: "int4",
    QuantizationMethod.GPTQ: "int4",
}


_DTYPES = {Dtype.BFLOAT16: "bf16", Dtype.FLOAT16: "fp16", Dtype.FLOAT32: "fp32"}


def validation_hints(inference: Inference) -> Iterator[str]:
    """Yield a sentence if the model is not published as validated on the card, or was validated differently."""
    spec = inference.spec
    if not runs_vllm_on_card(inference):
        return
    model, card = _model_name(spec), spec.accelerator.generation.value
    if model is None:
        return
    if last_release := last_release_for_validated_model(model):
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
        (
            name
            for name in spec.model.served_names
            if validations_by_card(name) or last_release_for_validated_model(name)
        ),
        None,
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
    if runtime_config_execution_mode(inference) in (ExecutionMode.HPU_GRAPHS, ExecutionMode.LAZY):
        for name, value in validation.settings.items():
            if name not in spec.engine.settings:
                yield f'{prefix} {name}: "{value}", but spec.engine.settings does not contain this setting.'


def _datatype(spec: GaudiInferenceSpec) -> str | None:
    """Return the data type, or None if the checkpoint determines it or the quantization method has several."""
    if quantization := spec.model.quantization:
        return _BITS.get(quantization.method)
    return _DTYPES.get(spec.model.dtype)
