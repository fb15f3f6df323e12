"""The attention bias that the plugin creates for a bucket, and the cases in which the plugin slices attention."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from gaudi_runtime.buckets.attention_bias import FusedAttentionBias, bias_plane_bytes
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.knobs.attention_settings import fused_attention
from gaudi_runtime.knobs.render import render_engine_options
from tests.plugin.cases import QUICK, case_config
from tests.plugin.engine import call_in_fork

BLOCK = 128


@pytest.fixture(scope="module")
def base(checkpoints: dict[str, Path]) -> RuntimeConfig:
    return case_config(QUICK[0], checkpoints["llama"])


def bias_of(bucket: Bucket, dtype: str = "bfloat16") -> list[int] | None:
    """Return the shape of the plugin's bias for a bucket and the bytes per element, or None if there is no bias."""
    import torch
    from vllm_gaudi.v1.attention.backends.hpu_attn import HPUAttentionMetadataV1
    from vllm_gaudi.v1.worker.hpu_model_runner import HPUAttentionMetadataProcessor, trim_attn_metadata

    batch, query, context = bucket
    # Use the meta device. Tensors on the meta device have a shape but take no memory.
    blocks = torch.zeros(batch * context, dtype=torch.int32, device="meta") if context else None
    lengths = torch.zeros(batch, dtype=torch.int32, device="meta")
    metadata = trim_attn_metadata(
        HPUAttentionMetadataV1.make_prefill_metadata(
            attn_bias=None,
            block_list=blocks,
            context_lens_tensor=lengths,
            seq_lens_tensor=lengths,
            slot_mapping=None,
            block_size=BLOCK,
        )
    )
    processor = object.__new__(HPUAttentionMetadataProcessor)
    processor.prefill_use_fusedsdpa, processor.block_size = True, BLOCK
    found = processor._set_attn_bias(metadata, batch, query, torch.device("meta"), getattr(torch, dtype)).attn_bias
    return None if found is None else [*found.shape, found.element_size()]


@pytest.mark.parametrize(
    ("dtype", "attention"), [("bfloat16", FusedAttentionBias()), ("float32", FusedAttentionBias(element_bytes=4))]
)
@pytest.mark.parametrize("bucket", [Bucket(1, 8192, 960), Bucket(2, 1024, 31)], ids=str)
def test_bias_plane_equals_that_of_the_plugin(
    bucket: Bucket, dtype: str, attention: FusedAttentionBias, tmp_path: Path
) -> None:
    batch, heads, query, tokens, size = call_in_fork(partial(bias_of, bucket, dtype), tmp_path)
    assert (batch, heads) == (bucket.batch_size, 1)
    assert query * tokens * size == bias_plane_bytes(bucket, BLOCK, attention)


def test_plugin_makes_no_bias_without_context(tmp_path: Path) -> None:
    assert call_in_fork(partial(bias_of, Bucket(1, 8192, 0)), tmp_path) is None


def slicing_threshold(config: RuntimeConfig) -> int | None:
    """Return the number of tokens from which the plugin slices attention with this configuration."""
    import vllm_gaudi.extension.environment as environment
    import vllm_gaudi.extension.runtime as runtime
    from vllm_gaudi.extension.bucketing.common import HPUBucketingManager
    from vllm_gaudi.extension.utils import SlicedFusedSDPABase

    limits = config.limits
    with mock.patch.dict(os.environ, render_engine_options(config).env):
        environment._VLLM_VALUES.update(model_type="llama", prefix_caching=limits.prefix_caching)
        runtime.clear_config()
        HPUBucketingManager().initialize(
            max_num_seqs=limits.max_num_seqs,
            max_num_prefill_seqs=limits.max_num_prefill_seqs,
            block_size=limits.block_size,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_model_len=limits.max_model_len,
        )
        slicing = SlicedFusedSDPABase()
    return slicing.slice_thld if slicing.enable_slicing else None


@pytest.mark.parametrize(
    ("strategy", "tokens", "settings"),
    [
        (Strategy.PADDING_AWARE, 2048, {}),
        (Strategy.PADDING_AWARE, 16384, {}),
        (Strategy.PADDING_AWARE, 16384, {"VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD": "4096"}),
        (Strategy.PADDING_AWARE, 16384, {"VLLM_HPU_FSDPA_SLICE_ENABLED": "false"}),
        (Strategy.LINEAR, 16384, {}),
        (Strategy.EXPONENTIAL, 16384, {}),
    ],
    ids=str,
)
def test_slicing_threshold_equals_that_of_the_plugin(
    base: RuntimeConfig, strategy: Strategy, tokens: int, settings: dict[str, str], tmp_path: Path
) -> None:
    changed = {"max_model_len": 16384, "max_num_batched_tokens": tokens, "block_size": BLOCK}
    config = base.model_copy(
        update={
            "limits": base.limits.model_copy(update=changed),
            "bucketing": BucketPolicy(strategy=strategy),
            "engine": base.engine.model_copy(update={"settings": settings}),
        }
    )
    ours = fused_attention(config, {})
    assert ours is not None
    assert call_in_fork(partial(slicing_threshold, config), tmp_path) == ours.sliced_from


def is_sliced(batch: int, query: int, tokens: int) -> bool:
    """Return True if the plugin's module computes this batch in slices when the threshold is 8192 tokens."""
    import torch
    from vllm_gaudi.extension.utils import ModuleFusedSDPA

    class Sliced:
        enable_slicing, slice_thld = True, 8192

        def __call__(self, *_: Any) -> bool:
            return True

    module = ModuleFusedSDPA.__new__(ModuleFusedSDPA)
    torch.nn.Module.__init__(module)
    module._sliced_module = Sliced()
    module._hpu_kernel_fsdpa = SimpleNamespace(apply=lambda *_: False)
    queries, keys = (torch.empty(batch, 1, each, 64, device="meta") for each in (query, tokens))
    bias = torch.empty(batch, 1, query, tokens, device="meta")
    answer: bool = module(queries, keys, keys, bias, 0.0, True, 1.0, "fast", True, None, "right")
    return answer


@pytest.mark.parametrize(
    "bucket", [Bucket(1, 8192, 960), Bucket(2, 4096, 960), Bucket(1, 1024, 55), Bucket(1, 1024, 56)], ids=str
)
def test_plugin_slices_buckets_whose_plane_is_not_counted(bucket: Bucket, tmp_path: Path) -> None:
    tokens = bucket.query_len + bucket.num_blocks * BLOCK
    found = call_in_fork(partial(is_sliced, bucket.batch_size, bucket.query_len, tokens), tmp_path)
    assert found == (bias_plane_bytes(bucket, BLOCK, FusedAttentionBias(sliced_from=8192)) == 0)


def is_causal_with_neural_compressor() -> bool:
    """Return True if the plugin passes causal attention to its module. Slices require causal attention."""
    import torch
    from vllm_gaudi.extension import ops

    passed: list[Any] = []

    def record(*arguments: Any) -> torch.Tensor:
        passed.extend(arguments)
        answer: torch.Tensor = arguments[0]
        return answer

    queries = torch.empty(1, 1024, 1, 64, device="meta")
    bias = torch.empty(1, 1, 1024, 1024, device="meta")
    with (
        mock.patch.object(ops, "USING_INC", new=True),
        mock.patch.object(ops, "get_config", return_value=SimpleNamespace(fp32_softmax=False)),
    ):
        ops._fsdpa_prompt_attention(queries, queries, queries, 1.0, record, is_causal=True, attn_bias=bias)
    return bool(passed[5])


def test_plugin_slices_no_prompt_with_neural_compressor(tmp_path: Path) -> None:
    assert call_in_fork(is_causal_with_neural_compressor, tmp_path) is False
