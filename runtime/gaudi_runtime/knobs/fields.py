"""The knobs that fields of a RuntimeConfig set, from the spec or from engine.settings. Pure.

Each knob that a typed field owns has one line (docs/reference/knobs.md). A value is a bool, a number, a text or several
texts, as the engine reads it; None if the engine gets no value. A test compares the names with the rows of table.csv
that a field owns and an engine reads.

Some entries of engine.settings are fields too, because plan and warm-up depend on these knobs: the runtime reads typed
fields, and the plan hash contains them. The script of the sim engine is another field.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gaudi_runtime.contract.bucketing import BucketingAttentionSlices, BucketingRangeSettings, BucketPolicy, Strategy
from gaudi_runtime.contract.config import CaptureOrder, ExecutionMode, QuantizationMethod, RuntimeConfig
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.knobs.table import Knob, KnobType, knobs, to_engine_value_of_knob

SLICED = "PT_HPU_SDPA_QKV_SLICE_MODE_FWD"
_SLICES = "limits.slidingWindowSlices"
_RANGES = {
    "PROMPT_BS": "bucketing.prompt.batchSize",
    "PROMPT_QUERY": "bucketing.prompt.query",
    "PROMPT_CTX": "bucketing.prompt.context",
    "DECODE_BS": "bucketing.decode.batchSize",
    "DECODE_BLOCK": "bucketing.decode.blocks",
}
PAD_LIMITS = {f"VLLM_{name}_BUCKET_PAD_MAX": place for name, place in _RANGES.items()}
"""The range of each setting that limits the padding of strategy PaddingAware, in units of the range."""
SETTING_FIELDS = {
    **{name: (place, "pad_max") for name, place in PAD_LIMITS.items()},
    "VLLM_CONTIGUOUS_PA": ("limits", "contiguous_paged_attention"),
    SLICED: ("limits", "sliding_window_slices"),
    "PT_HPU_SDPA_BC_FACTOR": (_SLICES, "tokens"),
    "VLLM_FUSEDSDPA_SLIDE_THLD": (_SLICES, "from_tokens"),
    "VLLM_GRAPH_PROMPT_RATIO": ("warmup", "prompt_ratio"),
    "VLLM_GRAPH_PROMPT_STRATEGY": ("warmup", "prompt_order"),
    "VLLM_GRAPH_DECODE_STRATEGY": ("warmup", "decode_order"),
    "--max-cudagraph-capture-size": ("warmup", "max_graph_tokens"),
    "VLLM_FULL_WARMUP": ("warmup", "fail_on_cold_shapes"),
}
"""The section and the field of each such knob."""
SLICE_SETTINGS = tuple(name for name, (section, _) in SETTING_FIELDS.items() if section == _SLICES)


class FieldSettings(NamedTuple):
    """The entries of engine.settings, by the place where a RuntimeConfig has them; those of bucketing by range."""

    limits: dict[str, Any]
    warmup: dict[str, Any]
    bucketing: dict[str, dict[str, Any]]
    engine: dict[str, str]
    sim_script: dict[str, str]


def split_settings_by_field(settings: Mapping[str, str], *, is_simulated: bool = False) -> FieldSettings:
    """Return the entries of engine.settings by their place.

    Wrong values are left out, because setting_errors.py reports them. The settings of slices have no effect without
    SLICED. With `is_simulated`, names that begin with a lower-case letter are the script of the sim engine. No knob has
    such a name.
    """
    sections: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name in settings.keys() & SETTING_FIELDS.keys():
        section, field = SETTING_FIELDS[name]
        value = _typed_value(knobs()[name], settings[name])
        if value is not None:
            sections[section][field] = value
    limits = sections["limits"]
    if limits.pop("sliding_window_slices", False):
        limits["sliding_window_slices"] = BucketingAttentionSlices.model_validate(sections[_SLICES])
    sim_script = {name: value for name, value in settings.items() if is_simulated and name[0].islower()}
    fields = sim_script.keys() | SETTING_FIELDS.keys()
    engine = {name: value for name, value in settings.items() if name not in fields}
    ranges = {place: sections[place] for place in _RANGES.values() if place in sections}
    return FieldSettings(limits, sections["warmup"], ranges, engine, sim_script)


def _typed_value(knob: Knob, value: str) -> Any:
    try:
        word = to_engine_value_of_knob(knob, value)
    except ValueError:
        return None
    match knob.type:
        case KnobType.BOOL:
            return word == knob.choices[0]
        case KnobType.INT:
            return int(word)
        case KnobType.FLOAT:
            return float(word)
    return CaptureOrder[word.upper()]


Value = bool | int | float | str | tuple[str, ...] | None

# Seven days. vLLM's own deadline must never end a start, because the runtime ends a start only if it makes no progress.
LONGEST_START_SECONDS = 604_800

# The size limit, in MB, of the compiled recipes that the Gaudi software keeps on the pod's disk.
RECIPE_CACHE_MB = 20_480

# vLLM's own limit is 999 for each modality. Videos are disabled, because a video is decoded at its full size, which may
# be arbitrarily large.
ITEMS_PER_PROMPT = {"image": 4, "video": 0, "audio": 1}

_LAZY = (ExecutionMode.HPU_GRAPHS, ExecutionMode.LAZY)
_EAGER = (ExecutionMode.LAZY, ExecutionMode.EAGER)
_STRATEGIES = {Strategy.EXPONENTIAL: "exp", Strategy.LINEAR: "lin", Strategy.PADDING_AWARE: "pad"}
# The methods that vLLM names differently. On a card, the plugin has its own kernels for AWQ and GPTQ.
_METHODS = {QuantizationMethod.MXFP4: "gpt_oss_mxfp4"}
_METHODS_OF_PLUGIN = {**_METHODS, QuantizationMethod.AWQ: "awq_hpu", QuantizationMethod.GPTQ: "gptq_hpu"}
_DIMENSIONS: dict[str, Callable[[BucketPolicy], BucketingRangeSettings]] = {
    "PROMPT_BS": lambda policy: policy.prompt.batch_size,
    "PROMPT_QUERY": lambda policy: policy.prompt.query,
    "PROMPT_CTX": lambda policy: policy.prompt.context,
    "DECODE_BS": lambda policy: policy.decode.batch_size,
    "DECODE_BLOCK": lambda policy: policy.decode.blocks,
}
_SETTINGS = ("min", "step", "max", "pad_max", "pad_percent")


def field_values(config: RuntimeConfig) -> dict[str, Value]:
    """Return the knob values from the typed fields of a configuration; None for a knob that is not set."""
    sections = (
        _bucketing,
        _warmup,
        _multimodal,
        _execution,
        _precision,
        _limits,
        _parallelism,
        _adapters,
        _serving,
    )
    return {name: value for section in sections for name, value in section(config).items()}


def _bucketing(config: RuntimeConfig) -> Mapping[str, Value]:
    policy, limits = config.bucketing, config.limits
    return {
        "VLLM_BUCKETING_STRATEGY": _STRATEGIES.get(policy.strategy),
        "VLLM_CONTIGUOUS_PA": limits.contiguous_paged_attention,
        **{
            f"VLLM_{name}_BUCKET_{setting.upper()}": getattr(dimension(policy), setting)
            for name, dimension in _DIMENSIONS.items()
            for setting in _SETTINGS
        },
        # The plugin also uses this variable as the maximum number of prompts in a step.
        "VLLM_PROMPT_BS_BUCKET_MAX": policy.prompt.batch_size.max or limits.max_num_prefill_seqs,
    }


def _warmup(config: RuntimeConfig) -> Mapping[str, Value]:
    warmup, recipe_folder = config.warmup, config.recipe_cache_dir
    return {
        "VLLM_SKIP_WARMUP": not warmup.enabled,
        "VLLM_FULL_WARMUP": _true_or_none(warmup.fail_on_cold_shapes),
        "VLLM_GRAPH_RESERVED_MEM": warmup.graph_memory_share,
        "PT_HPU_RECIPE_CACHE_CONFIG": f"{recipe_folder},false,{RECIPE_CACHE_MB}" if recipe_folder else None,
        "--max-cudagraph-capture-size": warmup.max_graph_tokens,
    }


def _multimodal(config: RuntimeConfig) -> Mapping[str, Value]:
    item_limits = ITEMS_PER_PROMPT | config.model.items_per_prompt.model_dump(exclude_none=True)
    return {"--limit-mm-per-prompt": json.dumps(item_limits, sort_keys=True)}


def _execution(config: RuntimeConfig) -> Mapping[str, Value]:
    is_lazy, is_eager = config.engine.execution_mode in _LAZY, config.engine.execution_mode in _EAGER
    slices = config.limits.sliding_window_slices
    return {
        "PT_HPU_LAZY_MODE": int(is_lazy),
        "PT_HPU_ENABLE_LAZY_COLLECTIVES": _true_or_none(is_lazy and config.parallelism.rank_count > 1),
        "--enforce-eager": _true_or_none(is_eager),
        "TORCHDYNAMO_DISABLE": _true_or_none(is_eager and config.engine.device == "cpu"),
        "PT_HPU_SDPA_QKV_SLICE_MODE_FWD": _true_or_none(slices is not None),
        "PT_HPU_SDPA_BC_FACTOR": slices.tokens if slices else None,
        "VLLM_FUSEDSDPA_SLIDE_THLD": slices.from_tokens if slices else None,
    }


def _precision(config: RuntimeConfig) -> Mapping[str, Value]:
    quantization = config.model.quantization
    method_names = _METHODS_OF_PLUGIN if config.engine.device == "hpu" else _METHODS
    return {
        "--dtype": config.model.dtype.value,
        "--kv-cache-dtype": config.model.kv_cache_dtype.value,
        "--quantization": method_names.get(quantization.method, quantization.method.value) if quantization else None,
        "QUANT_CONFIG": quantization.config_file if quantization else None,
    }


def _limits(config: RuntimeConfig) -> Mapping[str, Value]:
    limits = config.limits
    return {
        "--max-model-len": limits.max_model_len,
        "--max-num-seqs": limits.max_num_seqs,
        "--max-num-batched-tokens": _step_token_limit(config),
        "--block-size": limits.block_size,
        "--gpu-memory-utilization": config.engine.device_memory_utilization,
        "--enable-prefix-caching": limits.prefix_caching,
        "--enable-chunked-prefill": config.engine.chunked_prefill,
        "VLLM_ENGINE_READY_TIMEOUT_S": LONGEST_START_SECONDS,
    }


# A step must contain whole chunks of a recurrent model. This number is a multiple of the chunk size of every recurrent
# model that the plugin supports.
_WHOLE_CHUNKS = 256


def _step_token_limit(config: RuntimeConfig) -> int:
    """Return the token limit of a step in vLLM's scheduler, for prompts and decodes together."""
    limits = config.limits
    if config.engine.chunked_prefill or config.engine.device == "cpu":
        return limits.max_num_batched_tokens
    # A prompt that is not split waits until the whole prompt fits into a step. Add tokens for the decodes. Otherwise
    # the longest prompt would wait until all decodes have ended.
    decode_tokens = limits.max_num_seqs * (1 + (limits.draft_tokens or 0))
    return limits.max_num_batched_tokens + -(-decode_tokens // _WHOLE_CHUNKS) * _WHOLE_CHUNKS


def _parallelism(config: RuntimeConfig) -> Mapping[str, Value]:
    parallelism = config.parallelism
    return {
        "--tensor-parallel-size": parallelism.tensor,
        "--pipeline-parallel-size": parallelism.pipeline,
        "--data-parallel-size": parallelism.data,
        "--enable-expert-parallel": _true_or_none(parallelism.experts),
    }


def _adapters(config: RuntimeConfig) -> Mapping[str, Value]:
    model = config.model
    adapters = model.adapters
    return {
        "--enable-lora": _true_or_none(bool(adapters)),
        "--lora-modules": tuple(f"{adapter.name}={adapter.path}" for adapter in adapters) or None,
        "--max-loras": (model.max_adapters_per_batch or len(adapters)) if adapters else None,
        "--max-lora-rank": model.max_adapter_rank if adapters else None,
    }


def _serving(config: RuntimeConfig) -> Mapping[str, Value]:
    # Do not render the key itself. The operator passes it to the pod as a reference to its Secret.
    return {API_KEY_VARIABLE: None, "--model": config.model.path, "--served-model-name": config.model.served_names}


def _true_or_none(requested: bool) -> bool | None:
    # Return None if the option was not requested, because "off" is the engine's default.
    return True if requested else None
