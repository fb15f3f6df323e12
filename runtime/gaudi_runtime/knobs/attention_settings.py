"""The effect of settings on prompt attention with a cached context in vLLM's plugin. Pure.

The plugin's rules are in its files extension/features.py, extension/ops.py and extension/utils.py.
buckets/attention_bias.py checks the plan by these rules.
"""

from collections.abc import Iterable, Mapping

from gaudi_runtime.buckets.attention_bias import (
    MOST_PLANE_BYTES,
    FusedAttentionBias,
    bias_plane_bytes,
    largest_unindexable_bias,
    most_tokens_with_indexable_bias,
)
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import Dtype, EngineName, RuntimeConfig
from gaudi_runtime.knobs.fields import SLICED
from gaudi_runtime.knobs.table import NO, YES

SLICING, TILING = "VLLM_HPU_FSDPA_SLICE_ENABLED", "VLLM_HPU_FSDPA_Q_TILE_ENABLE"
SLICES_FROM = "VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD"
QUERY_PADDING = "VLLM_PROMPT_QUERY_BUCKET_PAD_MAX"
FUSED, FLEX = "VLLM_PROMPT_USE_FUSEDSDPA", "VLLM_PROMPT_USE_FLEX_ATTENTION"
_SLICED_FROM = 8192


def attention_uses_slices(variables: Mapping[str, str], strategy: Strategy) -> bool:
    """Return whether the plugin computes attention with long contexts in slices under these settings."""
    disabled = any(variables.get(name, "").lower() in NO for name in (SLICING, FUSED))
    return strategy is Strategy.PADDING_AWARE and not disabled


def attention_slicing_threshold(variables: Mapping[str, str], max_num_batched_tokens: int) -> int:
    """Return the number of tokens (context and query) from which attention is computed in slices."""
    value = variables.get(SLICES_FROM, "")
    # Use the default if the value is not a number. Another check rejects such a value, and the plugin rejects it during
    # its import.
    return int(value) if value.isascii() and value.isdecimal() else min(max_num_batched_tokens, _SLICED_FROM)


def fused_attention(
    config: RuntimeConfig, variables: Mapping[str, str], *, can_tile: bool = True
) -> FusedAttentionBias | None:
    """Return how the fused kernel computes attention with a context; None if every bias fits.

    `variables` are pod variables that engine.settings does not set. `can_tile` says whether the plugin's release can
    divide queries if a setting requests it.
    """
    settings = {**variables, **config.engine.settings}
    if config.engine.name is not EngineName.VLLM or config.engine.device != "hpu":
        return None
    if settings.get(FUSED, "").lower() in NO or settings.get(FLEX, "").lower() in YES:
        return None
    if can_tile and settings.get(TILING, "").lower() in YES:
        return None
    is_sliced = attention_uses_slices(settings, config.bucketing.strategy) and not _uses_inc_attention(config)
    return FusedAttentionBias(
        element_bytes=4 if config.model.dtype is Dtype.FLOAT32 else 2,
        sliced_from=attention_slicing_threshold(settings, config.limits.max_num_batched_tokens) if is_sliced else None,
    )


def _uses_inc_attention(config: RuntimeConfig) -> bool:
    """Return whether Neural Compressor computes attention. In this case the plugin never uses slices."""
    quantization = config.model.quantization
    return quantization is not None and quantization.config_file is not None


def why_attention_impossible(
    prompt_buckets: Iterable[Bucket],
    config: RuntimeConfig,
    attention: FusedAttentionBias | None,
    field_prefix: str = "",
) -> str | None:
    """Return why the attention kernel cannot run the plan's prompt buckets, without a full stop; else None."""
    bucket = largest_unindexable_bias(prompt_buckets, config.limits.block_size, attention)
    return _why_not_indexable(bucket, config, attention, field_prefix) if attention and bucket else None


def _why_not_indexable(
    bucket: Bucket, config: RuntimeConfig, attention: FusedAttentionBias, field_prefix: str = ""
) -> str:
    """Return why the attention kernel cannot index a bucket, and which settings help, without a full stop.

    `field_prefix` is the prefix of field names, for example "spec." for a GaudiInference.
    """
    bias_bytes = bias_plane_bytes(bucket, config.limits.block_size, attention)
    return (
        f"prompt bucket {tuple(bucket)} has an attention bias of {bias_bytes} bytes for each prompt. With "
        f"{MOST_PLANE_BYTES} or more bytes, the fused attention kernel returns NaN without an error (measured on "
        "Gaudi 3). "
        f"{', or '.join(_remedies(bucket, config, attention, field_prefix))}"
    )


def _remedies(bucket: Bucket, config: RuntimeConfig, attention: FusedAttentionBias, field_prefix: str) -> list[str]:
    strategy, engine_field = config.bucketing.strategy, f"{field_prefix}engine"
    has_context = bucket.num_blocks > 0
    max_tokens = most_tokens_with_indexable_bias(config.limits, attention)
    remedies = []
    if max_tokens:
        split_remedy = "" if config.engine.chunked_prefill else f"set {engine_field}.chunkedPrefill to true and "
        file_remedy = f" and remove the bucket from {field_prefix}bucketing.file" if strategy is Strategy.FILE else ""
        remedies.append(f"{split_remedy}lower {engine_field}.maxNumBatchedTokens to {max_tokens}{file_remedy}")
    if has_context and strategy is not Strategy.PADDING_AWARE and not _uses_inc_attention(config):
        strategy_name = capitalize_contract_word(Strategy.PADDING_AWARE)
        remedies.append(f"set {field_prefix}bucketing.strategy to {strategy_name}, which computes attention in slices")
    if not has_context:
        remedies.append(
            f"set {SLICED} to true in {engine_field}.settings, so that layers with a sliding window need no bias"
        )
    releases = " or ".join(pair.plugin for pair in PAIRS if pair.tiles_queries)
    remedies.append(f"use an image with vllm-gaudi {releases} and set {TILING} to true in {engine_field}.settings")
    remedies[0] = remedies[0][0].upper() + remedies[0][1:]
    return remedies
