"""The worker of vLLM's plugin for Gaudi, under our control. Only vLLM's own processes import it, by its name."""

import logging
from functools import partial
from typing import Any

from vllm_gaudi import envs
from vllm_gaudi.v1.worker.hpu_worker import HPUWorker

from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.vllm.ranks import Note
from gaudi_runtime.engines.vllm.start_errors import recorded
from gaudi_runtime.engines.vllm.workers.capabilities import GUIDED, losses, open_bridge
from gaudi_runtime.engines.vllm.workers.driven_worker import DrivenWorker
from gaudi_runtime.engines.vllm.workers.guided import GuidedSampling
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.engines.vllm.workers.kv_cache import useful_bytes
from gaudi_runtime.engines.vllm.workers.speculative import even_drafts
from gaudi_runtime.units import size

log = logging.getLogger(__name__)


class DrivenHpuWorker(DrivenWorker, HPUWorker):  # type: ignore[misc]
    """The class of vLLM's worker on a Gaudi card, under our control: one rank."""

    def determine_available_memory(self) -> int:
        """Return the KV cache that the plugin calculates, at most what sequences can fill. The rest is for graphs."""
        available = int(super().determine_available_memory())
        with recorded(self.gaudi_orders.failures, "memory was measured"):
            useful = useful_bytes(self.vllm_config, self.get_kv_cache_spec())
        if useful is None or useful >= available:
            return available
        log.info("The KV cache gets %s of %s: sequences cannot fill more", size(useful), size(available))
        return useful

    def sample_tokens(self, grammar_output: Any) -> Any:
        """Run a step as the plugin does, here and not in `execute_model`, and count the step while serving."""
        run = partial(super().sample_tokens, grammar_output)
        return self.gaudi_verbs.step(run) if self.gaudi_verbs is not None else run()

    def take_draft_token_ids(self) -> Any:
        """Return the drafts as the plugin does, but the same number for every sequence."""
        drafts = super().take_draft_token_ids()
        if drafts is not None:
            drafts.draft_token_ids = even_drafts(self.model_runner, drafts.draft_token_ids)
        return drafts

    def gaudi_open_verbs(self) -> HpuVerbs:
        """Return the calls over the plugin's model runner."""
        orders = self.gaudi_orders
        mode = ExecutionMode(orders.execution_mode)
        # Ranks are numbered over all engine cores, as in ranks.py.
        ranks = self.vllm_config.parallel_config
        leave_note = partial(Note(orders.runtime_pid).leave, ranks.data_parallel_index * ranks.world_size + self.rank)
        # The same rule as in the plugin; 0.26.0 does not have this setting.
        vision_for_real = bool(getattr(envs, "VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY", False))
        runner = self.model_runner
        verbs = HpuVerbs(runner, open_bridge(), mode, orders.fail_on_cold_shapes, leave_note, vision_for_real)
        if not losses(runner, GUIDED):
            GuidedSampling(runner)
        return verbs
