"""What is worth knowing of a spec and speaks against nothing: sentences, each whole (docs/running-vllm.md, Hints)."""

from collections.abc import Iterator

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.runtime_config import execution_mode, on_cpu, plan_limits
from gaudi_runtime.contract.config import Dtype, EngineName, ExecutionMode, QuantizationMethod
from gaudi_runtime.models.validated import Validated, validated

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
