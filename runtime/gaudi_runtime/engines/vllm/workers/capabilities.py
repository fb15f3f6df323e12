"""The capabilities of a worker's model runner, checked by attribute before the first bucket.

None of these names is a stable interface. A missing name is either an error, which names the supported releases, or a
degradation, which says what does not work. The contract tests compare each name with the recorded plugin.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.catalog.release_pairs import RELEASES
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engine_protocol.engine import GRAPH_MODES
from gaudi_runtime.engines.vllm.workers.bridge import Bridge
from gaudi_runtime.errors import ConfigError, EngineUnsupported, UnsupportedModel
from gaudi_runtime.knobs.speculation import NGRAM, why_method_refused

NO_COMPILE_METRIC = (
    "the bridge has no metric graph_compilation, so only the first batch of each shape that warm-up did not run counts "
    "as a recompilation"
)


@dataclass(frozen=True)
class PluginName:
    """A name that a capability of a worker needs: an attribute, or a method with the arguments that are passed.

    The name is required if `loss` is None. Otherwise `loss` says what does not work without it.
    """

    name: str
    parameters: tuple[str, ...] | None = None
    loss: str | None = None


_PLAIN = "the plan assumes plain attention in every layer, so shapes of other models may be cold"
UNBOUNDED = ("num_gdn", "num_mamba_like_layers", "interleaved_sliding_window")
"""Attributes that are set for a model whose decode batches may refer to as many blocks as its length allows."""
_GUIDED_COLD = "guided decoding is not warmed up: the sampler is compiled for each number of requests in a step"
# Names that a step with a grammar needs. Such a step pads its joined logits.
GUIDED = (
    PluginName(
        "_run_sampling",
        ("batch_changed", "logits_device", "request_ids", "pad_to", "logits_requests"),
        loss=_GUIDED_COLD,
    ),
    PluginName("use_structured_output", loss=_GUIDED_COLD),
    PluginName("apply_grammar_bitmask", ("scheduler_output", "grammar_output", "logits"), loss=_GUIDED_COLD),
)
_WRONG_SAMPLES = (
    "known faults of the plugin are not corrected: answers may be wrong after preemption with prefix caching, with "
    "penalties, and with structured outputs"
)
# Names that the corrections use.
CORRECTED = (
    PluginName("_prepare_sampling", ("batch_changed", "request_ids", "pad_to", "logits_reqs"), loss=_WRONG_SAMPLES),
    PluginName("requests", loss=_WRONG_SAMPLES),
    PluginName("input_batch", loss=_WRONG_SAMPLES),
)
CORRECTED_BATCH = (
    *(
        PluginName(name, loss=_WRONG_SAMPLES)
        for name in (
            "no_penalties",
            "num_computed_tokens_cpu",
            "num_prompt_tokens",
            "prev_sampled_token_ids",
            "prev_req_id_to_index",
            "presence_penalties_reqs",
            "frequency_penalties_reqs",
            "repetition_penalties_reqs",
            "req_id_to_index",
        )
    ),
    PluginName("add_request", ("request", "req_index"), loss=_WRONG_SAMPLES),
)
_FORMS_COLD = (
    "the sampler is warmed up only with the plugin's own settings: mixed batches, logprobs and penalties are compiled "
    "while requests wait"
)
# Names that the forms of the sampler replace or read.
SAMPLED_BATCH = (
    *(
        PluginName(name, loss=_FORMS_COLD)
        for name in (
            "all_greedy",
            "all_random",
            "generators",
            "greedy_reqs",
            "max_num_logprobs",
            "no_top_k",
            "no_top_p",
            "num_logprobs",
            "presence_penalties",
            "random_reqs",
            "req_output_token_ids",
            "top_k_reqs",
            "top_p_reqs",
            "vocab_size",
        )
    ),
    PluginName("_get_cached_prompt_token_ids", (), loss=_FORMS_COLD),
    PluginName("_make_prompt_token_ids_cpu_tensor", (), loss=_FORMS_COLD),
)
SAMPLER = (PluginName("sampler", loss=_FORMS_COLD), PluginName("_compile", ("module",), loss=_FORMS_COLD))
SETUP = (PluginName("enable_bucketing"), PluginName("use_hpu_graph"))
RUNNER = (
    PluginName("bucketing_manager"),
    PluginName("skip_warmup"),
    PluginName("block_size"),
    PluginName("max_model_len"),
    PluginName("is_pooling_model"),
    PluginName("speculative_config"),
    PluginName("warmup_model", ()),
    PluginName("_prepare_dummy_scenario", ("prompt_cfg", "decode_cfg")),
    PluginName(
        "_execute_model_generic",
        (
            "token_ids",
            "position_ids",
            "attn_metadata",
            "logits_indices",
            "kv_caches",
            "lora_logits_mask",
            "lora_mask",
            "warmup_mode",
            "inputs_embeds",
            "model_mm_kwargs",
        ),
    ),
    PluginName("_check_config", ("batch_size", "seq_len", "num_blocks", "attn_metadata", "warmup_mode")),
    PluginName("_can_merge_prefill_contents", ("lhs", "rhs")),
    PluginName(
        "supports_mm_inputs",
        loss="the plugin does not report whether the model accepts images, so a vision tower is not warmed up",
    ),
    PluginName("warmup_sampler", (), loss="the sampler is not warmed up: the first answer of every batch size is slow"),
    PluginName("kv_caches", loss="the size of the KV cache is unknown and counts as 0"),
    PluginName("graphed_buckets", loss="the plugin has no list of the graphs, so the plugin may run its own warm-up"),
    PluginName("attn_block_size", loss=_PLAIN),
    *(PluginName(name, loss=_PLAIN) for name in UNBOUNDED),
    *GUIDED,
    *CORRECTED,
    *SAMPLER,
)
_WINDOWS_WRONG = (
    "layers with a sliding window leave out tokens of the window, and some decode batches are compiled while they wait"
)
# Names that the exact windows of decode batches replace or read.
WINDOWS = (
    PluginName(
        "get_habana_paged_attn_buffers",
        ("block_tables", "slot_mapping", "batch_size", "block_size"),
        loss=_WINDOWS_WRONG,
    ),
    PluginName("_PAD_BLOCK_ID", loss=_WINDOWS_WRONG),
)
WINDOW_MASKS = (
    PluginName(
        "_set_block_mapping", ("metadata", "batch_size", "device", "dtype", "is_window_block"), loss=_WINDOWS_WRONG
    ),
)
MARGIN = (PluginName("mem_margin"),)
HPU_GRAPHS = (PluginName("_use_graphs", ("attn_metadata", "batch_size")),)
MANAGER = (
    PluginName("prompt_buckets"),
    PluginName("decode_buckets"),
    PluginName("num_hpu_blocks"),
    PluginName("generate_prompt_buckets", ()),
    PluginName("generate_decode_buckets", ()),
    PluginName("find_prompt_bucket", ("batch_size", "seq_len", "ctx")),
    PluginName("find_decode_bucket", ("batch_size", "num_blocks", "seed_buckets")),
    PluginName(
        "_fallback_max_ctx", loss="a decode batch that is too large for the plan is not limited to the largest bucket"
    ),
    PluginName("mamba_chunk_size", loss=_PLAIN),
    PluginName("mamba_chunk_size_is_explicit", loss=_PLAIN),
)
_REQUEST = ("requests", "num_scheduled_tokens", "num_computed_tokens", "total_tokens", "scheduled_tokens", "is_prompt")
_LONG_COLD = "prompt buckets whose query and context exceed the longest sequence run as shorter buckets"
# Names that are needed to build a dummy batch ourselves, if the plugin's own dummy batch would run as another bucket.
PIECES = (
    PluginName(
        "_add_dummy_request",
        _REQUEST,
        loss=_LONG_COLD,
    ),
    PluginName("_execute_dummy_scenario", ("requests", "scheduled_tokens"), loss=_LONG_COLD),
)
# Names that are needed to run a dummy step with drafts. They are checked only with speculative decoding.
DRAFTS = (
    PluginName("execute_model", ("scheduler_output", "warmup_mode")),
    PluginName("use_contiguous_pa"),
    PluginName("input_batch"),
    PluginName("_add_dummy_request", _REQUEST),
    PluginName("_execute_dummy_scenario", ("requests", "scheduled_tokens")),
)
SEEDS = (PluginName("seed_decode_buckets"),)
# Names of the plugin's input batch. They are used to give all requests the same number of drafts, and to remove the
# requests of a failed dummy batch.
BATCH = (
    PluginName("num_tokens_no_spec"),
    PluginName("num_reqs"),
    PluginName("req_id_to_index"),
    PluginName("remove_request", ("req_id",)),
    PluginName("condense", ("empty_req_indices",)),
)
_TOWER_COLD = "the vision tower is not warmed up: the first image of every size is slow"
# Names that are needed only for a model with image input.
VISION = (
    PluginName("model", loss=_TOWER_COLD),
    PluginName("get_model", (), loss=_TOWER_COLD),
    PluginName("warmup_multimodal_graphs", ("buckets",), loss=_TOWER_COLD),
    PluginName("log_warmup_multimodal", ("phase", "i", "max_i", "batch_size", "seq_len", "w", "h"), loss=_TOWER_COLD),
    PluginName(
        "_get_mm_dummy_batch",
        ("modality", "image_args", "width", "height", "count_override"),
        loss=_TOWER_COLD,
    ),
)
TOWER = (PluginName("embed_multimodal", loss=_TOWER_COLD),)
# Names that exist only after the plugin has prepared itself.
VISION_BUCKETS = (PluginName("multimodal_buckets", loss=_TOWER_COLD), PluginName("is_batch_based", loss=_TOWER_COLD))
_SWAPS_COLD = "the defragmenter is not warmed up: the first move of each size is slow"
_SWAPS_KEPT = "the defragmenter is not reset after warm-up"
# Names that exist only after the plugin has prepared itself.
PREPARED = (PluginName("defragmenter", loss=_SWAPS_COLD),)
REMADE = (PluginName("kv_caches", loss=_SWAPS_KEPT), PluginName("block_size", loss=_SWAPS_KEPT))
DEFRAGMENTER = (PluginName("warmup", (), loss=_SWAPS_COLD), *REMADE, PluginName("graphed", loss=_SWAPS_COLD))

_MODES = {
    (True, True): ExecutionMode.HPU_GRAPHS,
    (False, True): ExecutionMode.TORCH_COMPILE,
    (True, False): ExecutionMode.LAZY,
    (False, False): ExecutionMode.EAGER,
}


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a worker: its execution mode, and what does not work with its plugin."""

    mode: ExecutionMode
    degradations: tuple[str, ...]

    @property
    def captures_graphs(self) -> bool:
        """Whether this execution mode captures graphs."""
        return self.mode in GRAPH_MODES


def find_capabilities(runner: Any, bridge: Bridge) -> Capabilities:
    """Return the capabilities of this worker.

    Raises EngineUnsupported if the plugin lacks a required name, and ConfigError or UnsupportedModel for a
    configuration that is not supported.
    """
    # Check the names before the next lines read them.
    find_degradations(runner, SETUP)
    if not runner.enable_bucketing:
        raise ConfigError("VLLM_ENABLE_BUCKETING is false, so there are no buckets to warm up. Remove the variable.")
    mode = _MODES[bool(bridge.is_lazy()), bool(runner.use_hpu_graph)]
    degradations = [
        *find_degradations(runner, (*runner_names(mode), *PIECES)),
        *find_degradations(runner.bucketing_manager, MANAGER),
    ]
    if not find_degradations(runner, CORRECTED):
        degradations += find_degradations(runner.input_batch, (*CORRECTED_BATCH, *SAMPLED_BATCH))
    refuse_pooling(runner)
    _check_speculation(runner)
    _check_memory_divided(runner, mode)
    if bridge.compile_only is None:
        degradations.append("the bridge has no compile-only mode, so every bucket is also computed when it is compiled")
    if bridge.compiled is None:
        degradations.append(NO_COMPILE_METRIC)
    if getattr(runner, "supports_mm_inputs", False):
        degradations += vision_degradations(runner)
    if has_windows(runner):
        degradations += window_degradations(runner)
    return Capabilities(mode, tuple(degradations))


def vision_degradations(runner: Any) -> list[str]:
    """Return why the plugin cannot warm up the vision tower, as sentences; empty if it can."""
    return find_degradations(runner, VISION) or find_degradations(runner.model, TOWER)


def has_windows(runner: Any) -> bool:
    """Return whether only some layers of the model have a sliding window."""
    # The plugin's value is the size of the window in tokens, or false.
    return bool(getattr(runner, "interleaved_sliding_window", False))


def window_degradations(runner: Any) -> list[str]:
    """Return why the sliding windows of decode batches are not exact, as sentences; empty if they are."""
    masks = getattr(runner.model, "metadata_processor", None)
    return find_degradations(runner, WINDOWS) or find_degradations(masks, WINDOW_MASKS)


def runner_names(mode: ExecutionMode) -> tuple[PluginName, ...]:
    """Return the names of the model runner that are needed in this execution mode."""
    hpu_graphs = HPU_GRAPHS if mode is ExecutionMode.HPU_GRAPHS else ()
    return (*RUNNER, *(MARGIN if mode in GRAPH_MODES else ()), *hpu_graphs)


def find_degradations(owner: object, names: Iterable[PluginName]) -> list[str]:
    """Return what does not work because `owner` lacks names. Raises EngineUnsupported for a required name."""
    missing = [entry for entry in names if not _has_name(owner, entry)]
    for entry in missing:
        if entry.loss is None:
            args = "" if entry.parameters is None else f"({', '.join(entry.parameters)})"
            raise EngineUnsupported(
                f"{type(owner).__name__} of vllm-gaudi has no {entry.name}{args}. This runtime supports {RELEASES}. "
                "Use an image with these releases."
            )
    return list(dict.fromkeys(entry.loss for entry in missing if entry.loss))


def _has_name(owner: object, entry: PluginName) -> bool:
    if entry.parameters is None:
        return hasattr(owner, entry.name)
    try:
        inspect.signature(getattr(owner, entry.name, None)).bind(*entry.parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def refuse_pooling(runner: Any) -> None:
    """Raise UnsupportedModel for a pooling model, which vLLM runs without decoding."""
    if runner.is_pooling_model:
        raise UnsupportedModel("Warm-up of pooling models is not supported. Choose a model that generates text.")


def _check_speculation(runner: Any) -> None:
    if runner.speculative_config is None:
        return
    if (method := runner.speculative_config.method) != NGRAM:
        raise UnsupportedModel(
            f"Speculative decoding with method {method} is not supported, because {why_method_refused(method)}. Use "
            f"method {NGRAM}, or remove --speculative-config."
        )
    find_degradations(runner, DRAFTS)
    find_degradations(runner.input_batch, BATCH)
    if getattr(runner, "attn_block_size", None) not in (None, runner.block_size):
        raise UnsupportedModel(
            "Speculative decoding is not supported for models with recurrent layers. Remove --speculative-config."
        )
    # Rows of one sequence share their blocks, but contiguous attention expects one row for each block. A test returned
    # wrong tokens.
    if runner.use_contiguous_pa:
        raise ConfigError(
            "Speculative decoding gives wrong answers with contiguous paged attention (vllm-gaudi 0.26). Set "
            "VLLM_CONTIGUOUS_PA to false in spec.engine.settings."
        )
    find_degradations(runner.bucketing_manager, SEEDS)


def _check_memory_divided(runner: Any, mode: ExecutionMode) -> None:
    if runner.bucketing_manager.num_hpu_blocks is None or (mode in GRAPH_MODES and runner.mem_margin is None):
        raise EngineUnsupported(
            "vllm-gaudi has not divided the device memory yet (num_hpu_blocks or mem_margin is None). Supported "
            f"releases divide the memory before warm-up. Use an image with {RELEASES}."
        )
