"""The way in which pods execute the model: on a card or a CPU, in which mode, and whether they capture graphs."""

from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Generation
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import WarmupPolicy
from gaudi_operator.core.inference import Inference
from gaudi_runtime.contract.config import (
    EngineName,
    ExecutionMode,
)
from gaudi_runtime.contract.preparation import Preparation, preparation_of


def runs_vllm_on_card(inference: Inference) -> bool:
    """Return True if pods execute the model in vLLM on a card, and False for a CPU or another engine."""
    spec = inference.spec
    return spec.engine.name is EngineName.VLLM and not runs_on_cpu(spec.accelerator)


def captures_graphs(inference: Inference) -> bool:
    """Return True if pods capture graphs. The execution mode and the warm-up settings of the spec decide this."""
    lacks_graphs = execution_mode(inference) in (ExecutionMode.LAZY, ExecutionMode.EAGER)
    return inference.spec.warmup.policy is WarmupPolicy.COMPLETE and not lacks_graphs


def preparation(inference: Inference) -> Preparation:
    """Return the step that follows the compile of each bucket in the pods of the spec."""
    return preparation_of(execution_mode(inference), captures=captures_graphs(inference))


def execution_mode(inference: Inference) -> ExecutionMode:
    """Return the execution mode of the spec or, if the spec sets none, of the stored revision of this spec.

    Without a stored revision, the mode is torch.compile.
    """
    # Prefer the mode of the revision. The default may have changed since the revision was created.
    return inference.spec.engine.execution_mode or inference.stored_mode or ExecutionMode.TORCH_COMPILE


def runs_on_cpu(accelerator: Accelerator) -> bool:
    """Return True if pods execute the model on a CPU, without a card."""
    return accelerator.generation is Generation.NONE


def steps_by_tokens(spec: GaudiInferenceSpec) -> bool:
    """Return True if a graph is compiled for each number of tokens in a step, as vLLM does on a CPU."""
    return spec.engine.name is EngineName.VLLM and runs_on_cpu(spec.accelerator)
