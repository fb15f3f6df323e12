"""How the pods of a spec execute the model: on a card or a CPU, in which mode, and whether they capture graphs."""

from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Generation
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.resource import Inference
from gaudi_runtime.contract.config import (
    EngineName,
    ExecutionMode,
)


def runs_the_plugin(inference: Inference) -> bool:
    """Return True if pods execute the model in vLLM on a card, not on a CPU or in another engine."""
    spec = inference.spec
    return spec.engine.name is EngineName.VLLM and not on_cpu(spec.accelerator)


def captures_graphs(inference: Inference) -> bool:
    """Return True if pods capture graphs, according to the execution mode and the warm-up of their spec."""
    eager = execution_mode(inference) in (ExecutionMode.LAZY, ExecutionMode.EAGER)
    return inference.spec.warmup.enabled and not eager


def execution_mode(inference: Inference) -> ExecutionMode:
    """Return the execution mode of the spec, or of the kept revision, or torch.compile for a new revision."""
    # The default may have been different when the revision was created, and pods are judged by their own mode.
    return inference.spec.engine.execution_mode or inference.kept_mode or ExecutionMode.TORCH_COMPILE


def on_cpu(accelerator: Accelerator) -> bool:
    """Return True if pods execute the model on a CPU, without a card."""
    return accelerator.generation is Generation.NONE


def steps_by_tokens(spec: GaudiInferenceSpec) -> bool:
    """Return True if the execution compiles a graph per number of tokens in a step, as vLLM does on a CPU."""
    return spec.engine.name is EngineName.VLLM and on_cpu(spec.accelerator)
