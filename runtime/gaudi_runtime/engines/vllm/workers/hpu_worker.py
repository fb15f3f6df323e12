"""The worker of vLLM's Gaudi plugin, controlled by the runtime. Only vLLM's processes import this module, by name."""

import logging
from functools import partial
from typing import Any

from vllm_gaudi import envs
from vllm_gaudi.v1.worker.hpu_worker import HPUWorker

from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.vllm.ranks import ErrorNote
from gaudi_runtime.engines.vllm.start_errors import record_errors
from gaudi_runtime.engines.vllm.workers.bridge import open_bridge
from gaudi_runtime.engines.vllm.workers.capabilities import CORRECTED, GUIDED, SAMPLED_BATCH, SAMPLER, find_degradations
from gaudi_runtime.engines.vllm.workers.corrections import correct_plugin
from gaudi_runtime.engines.vllm.workers.driven_worker import DrivenWorker
from gaudi_runtime.engines.vllm.workers.guided import GuidedSampling
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.engines.vllm.workers.kv_cache import useful_cache_bytes
from gaudi_runtime.engines.vllm.workers.sampling import SamplerForms
from gaudi_runtime.engines.vllm.workers.speculative import equalize_drafts
from gaudi_runtime.units import format_bytes

log = logging.getLogger(__name__)


class DrivenHpuWorker(DrivenWorker, HPUWorker):  # type: ignore[misc]
    """The class of vLLM's worker on a Gaudi card, controlled by the runtime; one object per rank."""

    def determine_available_memory(self) -> int:
        """Return the KV cache size that the plugin calculates, limited to the useful size. The rest is for graphs."""
        available_bytes = int(super().determine_available_memory())
        with record_errors(self.gaudi_settings.failures, "memory was measured"):
            useful_bytes = useful_cache_bytes(self.vllm_config, self.get_kv_cache_spec())
        if useful_bytes is None or useful_bytes >= available_bytes:
            return available_bytes
        log.info(
            "The KV cache gets %s of %s, because sequences cannot fill more",
            format_bytes(useful_bytes),
            format_bytes(available_bytes),
        )
        return useful_bytes

    def sample_tokens(self, grammar_output: Any) -> Any:
        """Run a step and, during serving, count it. The plugin runs the forward here and not in `execute_model`."""
        run = partial(super().sample_tokens, grammar_output)
        return self.gaudi_verbs.step(run) if self.gaudi_verbs is not None else run()

    def take_draft_token_ids(self) -> Any:
        """Return the plugin's drafts with the same number of drafts for every sequence."""
        drafts = super().take_draft_token_ids()
        if drafts is not None:
            drafts.draft_token_ids = equalize_drafts(self.model_runner, drafts.draft_token_ids)
        return drafts

    def gaudi_create_verbs(self) -> HpuVerbs:
        """Return the calls that use the plugin's model runner."""
        settings = self.gaudi_settings
        mode = ExecutionMode(settings.execution_mode)
        # Number the ranks across all engine cores, as ranks.py does.
        config = self.vllm_config.parallel_config
        leave_note = partial(
            ErrorNote(settings.runtime_pid).write, config.data_parallel_index * config.world_size + self.rank
        )
        # Use the plugin's setting. Release 0.26.0 does not have the setting, so the default is False.
        run_vision = bool(getattr(envs, "VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY", False))
        # The ranks of the last pipeline stage are the last ranks.
        samples = self.rank >= config.world_size - config.tensor_parallel_size
        runner, bridge = self.model_runner, open_bridge()
        correct_plugin(runner)
        missing = find_degradations(runner, (*SAMPLER, *CORRECTED))
        if not missing and not find_degradations(runner.input_batch, SAMPLED_BATCH):
            SamplerForms(runner, bridge.mark_step)
        if not find_degradations(runner, GUIDED):
            GuidedSampling(runner, bridge.mark_step)
        return HpuVerbs(runner, bridge, mode, settings.fail_on_cold_shapes, leave_note, run_vision, samples)
