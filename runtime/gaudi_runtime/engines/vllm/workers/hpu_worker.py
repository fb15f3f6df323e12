"""The worker of vLLM's plugin for Gaudi, driven. Only vLLM's own processes import this module, by its name."""

from typing import Any

from vllm_gaudi.v1.worker.hpu_worker import HPUWorker

from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.vllm.workers.capabilities import open_bridge
from gaudi_runtime.engines.vllm.workers.driven import DrivenWorker
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs


class DrivenHpuWorker(DrivenWorker, HPUWorker):  # type: ignore[misc]
    """One rank on a Gaudi card."""

    def execute_model(self, scheduler_output: Any) -> Any:
        """As the plugin does, which runs the step when it is asked to sample; counted while serving."""
        if self.gaudi_verbs is not None:
            self.gaudi_verbs.met(scheduler_output)
        return super().execute_model(scheduler_output)

    def gaudi_open_verbs(self) -> HpuVerbs:
        """The verbs over the plugin's model runner."""
        return HpuVerbs(self.model_runner, open_bridge(), ExecutionMode(self.gaudi_orders.execution_mode))
