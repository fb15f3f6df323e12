"""The vLLM worker on a CPU, controlled by the runtime. Only vLLM's processes import this module, by name."""

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.vllm.workers.cpu import CpuVerbs
from gaudi_runtime.engines.vllm.workers.driven_worker import DrivenWorker


class DrivenCpuWorker(DrivenWorker, CPUWorker):
    """The class of vLLM's worker on a CPU, controlled by the runtime; one object per rank."""

    def _should_warm_up_model(self) -> bool:
        """Return False to skip the warm-up, because on a CPU vLLM would compile while it measures memory."""
        return False

    def execute_model(self, scheduler_output: Any) -> Any:
        """Execute one step and, during serving, count it."""
        if self.gaudi_verbs is None:
            return super().execute_model(scheduler_output)
        return self.gaudi_verbs.step(scheduler_output, super().execute_model)

    def gaudi_create_verbs(self) -> CpuVerbs:
        """Return the calls that run real steps with the model runner."""
        return CpuVerbs(self, ExecutionMode(self.gaudi_settings.execution_mode))
