"""The worker of vLLM's plugin for Gaudi, driven. Only vLLM's own processes import this module, by its name."""

from vllm_gaudi.v1.worker.hpu_worker import HPUWorker

from gaudi_runtime.engines.vllm.bridge import open_bridge
from gaudi_runtime.engines.vllm.hpu import HpuVerbs
from gaudi_runtime.engines.vllm.worker import DrivenWorker


class DrivenHpuWorker(DrivenWorker, HPUWorker):  # type: ignore[misc]
    """One rank on a Gaudi card."""

    def gaudi_open_verbs(self) -> HpuVerbs:
        """The verbs over the plugin's model runner."""
        return HpuVerbs(self.model_runner, open_bridge())
