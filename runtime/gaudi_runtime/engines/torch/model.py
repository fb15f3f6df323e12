"""The forward of a transformers model over the buffers of a bucket, with our paged attention.

The attention gives the same results as the attention of transformers, but with static shapes only. It writes the cache
by slot and reads it by block. Both phases mask the padding, so the result of a row does not depend on its bucket.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from gaudi_runtime.engines.torch.buffers import Buffers, Geometry, KVCache

Network = Any
"""A transformers causal language model, untyped because the library has no types."""

ATTENTION_NAME = "gaudi_paged"
LOWEST = torch.finfo(torch.float32).min


class PromptAttentionInputs(NamedTuple):
    """The attention inputs of all layers in a prompt forward. `mask` (B, 1, Q, context + Q) is None without context."""

    cache: KVCache
    buffers: Buffers
    mask: Tensor | None


class DecodeAttentionInputs(NamedTuple):
    """The attention inputs of all layers in decode: `valid` (N, S), valid tokens; `owned` (B, N), blocks per row."""

    cache: KVCache
    buffers: Buffers
    valid: Tensor
    owned: Tensor


def prompt_attention_inputs(cache: KVCache, buffers: Buffers) -> PromptAttentionInputs:
    """Return the inputs for causal attention to the new tokens and full attention to the valid context tokens."""
    rows, query_len = buffers.tokens.shape
    context_len = buffers.keys.shape[0] // rows * buffers.keys.shape[1]
    if context_len == 0:
        return PromptAttentionInputs(cache, buffers, mask=None)
    device = buffers.tokens.device
    context_mask = torch.arange(context_len, device=device) < buffers.lengths[:, None]
    causal = torch.ones(query_len, query_len, dtype=torch.bool, device=device).tril()
    mask = torch.cat(
        (context_mask[:, None].expand(rows, query_len, context_len), causal.expand(rows, query_len, query_len)), dim=-1
    )
    return PromptAttentionInputs(cache, buffers, mask[:, None])


def decode_attention_inputs(cache: KVCache, buffers: Buffers) -> DecodeAttentionInputs:
    """Return the inputs for attention of each row to the valid tokens of its own blocks."""
    block_size, device = buffers.keys.shape[1], buffers.tokens.device
    valid_tokens = torch.arange(block_size, device=device) < buffers.lengths[:, None]
    row_ids = torch.arange(buffers.tokens.shape[0], device=device)
    return DecodeAttentionInputs(cache, buffers, valid_tokens, owned=buffers.owners == row_ids[:, None])


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    paged: PromptAttentionInputs | DecodeAttentionInputs,
    **_: object,
) -> tuple[Tensor, None]:
    """Store the new keys and values of one layer in the cache, then compute the paged attention of this layer.

    query (B, heads, Q, D), key and value (B, kv heads, Q, D) -> (B, Q, heads, D). The function ignores
    `attention_mask`, because `paged` contains the mask.
    """
    cached_keys, cached_values = paged.cache[module.layer_idx]  # type: ignore[index]
    _store(cached_keys, key, paged.buffers.slots)
    _store(cached_values, value, paged.buffers.slots)
    if isinstance(paged, PromptAttentionInputs):
        return _compute_prompt_attention(paged, query, key, value, cached_keys, cached_values, scaling), None
    return _compute_decode_attention(paged, query, cached_keys, cached_values, scaling), None


def _store(cache: Tensor, new_states: Tensor, slots: Tensor) -> None:
    cache.index_copy_(0, slots, new_states.transpose(1, 2).reshape(-1, *cache.shape[1:]))


def _gather(cache: Tensor, block_ids: Tensor, workspace: Tensor) -> Tensor:
    """Copy the blocks into `workspace` (N, S, kv heads, D). If it is empty, return the first N blocks of the cache."""
    by_block = cache.view(-1, *workspace.shape[1:])
    if workspace.shape[0] == 0:
        return by_block[: block_ids.shape[0]]
    return torch.index_select(by_block, 0, block_ids, out=workspace)


def _compute_prompt_attention(
    paged: PromptAttentionInputs,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cached_keys: Tensor,
    cached_values: Tensor,
    scaling: float,
) -> Tensor:
    if paged.mask is not None:
        key = _prepend_context(cached_keys, key, paged.buffers.blocks, paged.buffers.keys)
        value = _prepend_context(cached_values, value, paged.buffers.blocks, paged.buffers.values)
    causal = paged.mask is None
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=paged.mask, is_causal=causal, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2)


def _prepend_context(cache: Tensor, new_states: Tensor, block_ids: Tensor, workspace: Tensor) -> Tensor:
    """Return (B, kv heads, context + Q, D): the cached tokens of each row, followed by its new tokens."""
    context_states = _gather(cache, block_ids, workspace).reshape(new_states.shape[0], -1, *cache.shape[1:])
    return torch.cat((context_states.transpose(1, 2), new_states), dim=2)


def _compute_decode_attention(
    paged: DecodeAttentionInputs, query: Tensor, cached_keys: Tensor, cached_values: Tensor, scaling: float
) -> Tensor:
    """Compute softmax per block with the largest score of the row, then sum per row. Padding blocks get weight zero."""
    buffers = paged.buffers
    rows, heads, _, dim = query.shape
    key_blocks = _gather(cached_keys, buffers.blocks, buffers.keys)
    value_blocks = _gather(cached_values, buffers.blocks, buffers.values)
    queries = query.reshape(rows, key_blocks.shape[2], -1, dim)[buffers.owners]
    scores = torch.einsum("nkgd,nskd->nkgs", queries, key_blocks).float() * scaling
    scores = scores.masked_fill(~paged.valid[:, None, None], LOWEST)
    max_scores = torch.where(paged.owned[..., None, None], scores.amax(-1), LOWEST).amax(1)
    weights = torch.exp(scores - max_scores[buffers.owners][..., None])
    outputs = torch.einsum("nkgs,nskd->nkgd", weights.to(value_blocks.dtype), value_blocks).float()
    owned = paged.owned.float()
    totals = (owned @ weights.sum(-1).flatten(1)).view(rows, heads, 1)
    answer = (owned @ outputs.flatten(1)).view(rows, heads, dim) / totals.clamp_min(torch.finfo(torch.float32).tiny)
    return answer.to(query.dtype)[:, None]


AttentionInterface.register(ATTENTION_NAME, paged_attention)


def read_geometry(network: Network, block_size: int, contiguous_attention: bool) -> Geometry:
    """Return the sizes of a loaded transformers model."""
    config, attention = network.config, network.model.layers[0].self_attn
    return Geometry(
        layer_count=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        vocabulary_size=config.vocab_size,
        kv_heads=config.num_key_value_heads,
        head_dim=attention.head_dim,
        block_size=block_size,
        dtype=network.dtype,
        contiguous_attention=contiguous_attention,
    )


def forward(network: Network, cache: KVCache, buffers: Buffers, is_prompt: bool) -> None:
    """Run one forward: read inputs from `buffers`, write logits to `buffers`, and keys and values to the cache."""
    decoder = network.model
    attention = prompt_attention_inputs(cache, buffers) if is_prompt else decode_attention_inputs(cache, buffers)
    flat = buffers.tokens.flatten()
    hidden = torch.index_select(decoder.embed_tokens.weight, 0, flat, out=buffers.hidden)
    hidden = hidden.view(*buffers.tokens.shape, -1)
    positions = decoder.rotary_emb(hidden, buffers.positions)
    # Run the layers here instead of calling the decoder. The decoder creates masks that depend on sequence lengths, and
    # a graph cannot contain such masks.
    for layer in decoder.layers:
        hidden = layer(hidden, attention_mask=None, position_embeddings=positions, paged=attention)
    last_hidden = decoder.norm(hidden.flatten(0, 1)[buffers.last])
    buffers.logits.copy_(network.lm_head(last_hidden))
