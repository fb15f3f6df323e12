"""Our plans and the plans of the plugin's own planner. They are equal under the variables that we render."""

import logging
import os
from bisect import bisect_left
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gaudi_runtime.buckets.kv_blocks import (
    DeviceBlocks,
    clamp_blocks,
    most_context_kv_blocks_for_query,
    most_decode_blocks,
)
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.planning.planner import make_plan_for_device
from tests.plugin.cases import QUICK, case_config
from tests.plugin.engine import call_in_fork

Shapes = set[tuple[int, int, int]]
LAYOUTS = ((False, True), (False, False), (True, False))
"""Prefix caching and contiguous blocks. With both enabled the plugin disables prefix caching."""
LIMITS = [
    Limits(
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_prefill_seqs=prefills,
        max_num_batched_tokens=tokens,
        block_size=128,
        prefix_caching=caching,
        contiguous_paged_attention=contiguous,
    )
    for (caching, contiguous), prefills, length, tokens, seqs in product(
        LAYOUTS, (1, 2, 4), (1024, 4096, 16384), (512, 2048, 4096), (4, 64)
    )
    if tokens <= length
]
BLOCKS = (100, 300, 4000)
RANGED = (Strategy.LINEAR, Strategy.EXPONENTIAL, Strategy.PADDING_AWARE)
FILE = "(1, [128, 256, 512], range(0, 4))\n(2, 128, 0)\n([1, 2, 4], 1, [8, 24, 64])\n"


@pytest.fixture(scope="module")
def base(checkpoints: dict[str, Path]) -> RuntimeConfig:
    return case_config(QUICK[0], checkpoints["llama"])


def plugin_plan(config: RuntimeConfig, blocks: int) -> dict[BucketPhase, Shapes]:
    """Return the plugin's plan with the environment variables of this configuration.

    Errors of the plugin are raised.
    """
    import vllm_gaudi.extension.environment as environment
    import vllm_gaudi.extension.runtime as runtime
    from vllm_gaudi.extension.bucketing.common import HPUBucketingManager

    limits = config.limits
    with mock.patch.dict(os.environ, render_engine_options(config).env):
        environment._VLLM_VALUES.update(model_type="llama", prefix_caching=limits.prefix_caching)
        runtime.clear_config()
        manager = HPUBucketingManager()
        manager.initialize(
            max_num_seqs=limits.max_num_seqs,
            max_num_prefill_seqs=limits.max_num_prefill_seqs,
            block_size=limits.block_size,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_model_len=limits.max_model_len,
        )
        manager.num_hpu_blocks = blocks
        manager.generate_prompt_buckets()
        manager.generate_decode_buckets()
    found = {BucketPhase.PROMPT: manager.prompt_buckets, BucketPhase.DECODE: manager.decode_buckets}
    return {phase: {(int(b), int(q), int(n)) for b, q, n in buckets} for phase, buckets in found.items()}


def differences(config: RuntimeConfig, blocks: int) -> str | None:
    """Return the buckets that only one of the two plans contains, or None if the plans are equal."""
    size = config.limits.block_size
    # Do not limit the plan to the blocks of the device, because release 0.26 of the plugin has no such limit. Later
    # releases limit the plans of models with plain attention.
    plan = make_plan_for_device(config.bucketing, config.limits, DeviceBlocks(blocks, size, size, bounded=False))
    for phase, planned in plugin_plan(config, blocks).items():
        ours = {tuple(each) for each in plan.buckets_of(phase)}
        if ours != planned:
            return f"{phase}: only we {sorted(ours - planned)[:3]}, only the plugin {sorted(planned - ours)[:3]}"
    return None


def differing_plans(base: RuntimeConfig, strategy: Strategy, blocks: int) -> dict[str, str]:
    """Return the differences between our plans and the plugin's plans, by limits."""
    logging.disable(logging.CRITICAL)
    wrong = {}
    for limits in LIMITS:
        # Plan contexts even without prefix caching, because the plugin does the same.
        contexts = limits.model_copy(update={"splits_prompts": True})
        config = base.model_copy(update={"limits": contexts, "bucketing": BucketPolicy(strategy=strategy)})
        if found := differences(config, blocks):
            wrong[str(limits)] = found
    return wrong


# Each test runs in a forked process, because the plugin stores its configuration in its process. Later tests fork from
# the main process and would otherwise inherit this configuration.
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("strategy", RANGED)
def test_every_plan_equals_the_plan_of_the_plugin(
    base: RuntimeConfig, strategy: Strategy, blocks: int, tmp_path: Path
) -> None:
    assert call_in_fork(partial(differing_plans, base, strategy, blocks), tmp_path) == {}


class Difference(StrEnum):
    """The reason why only one of two plans has a bucket: the plan of a resource or the plugin's plan."""

    NO_CONTEXT = "prompts have no context: none is split, and none is cached"
    TOO_MUCH_CONTEXT = "more context than the shortest query of this bucket leaves room for"
    MOST_CONTEXT = "the most context of the shortest query of this bucket"
    LONGEST_QUERY = "the longest query, which is no value of the range"
    MOST_SEQUENCES = "the most sequences, which are no value of the range"
    MOST_BLOCKS = "the most blocks of a decode batch, which are no value of the range"
    UNEXPLAINED = "unexplained"


def reason(
    phase: BucketPhase, bucket: tuple[int, int, int], limits: Limits, blocks: int, shorter: int, ours: bool
) -> Difference:
    """Return the reason why only one plan has this bucket. `shorter` is the next shorter query in our plan."""
    batch, query, context = bucket
    if phase is BucketPhase.DECODE:
        if ours and batch == limits.max_num_seqs:
            return Difference.MOST_SEQUENCES
        most = most_decode_blocks(limits.max_num_seqs, limits, blocks)
        return Difference.MOST_BLOCKS if ours and context == clamp_blocks(limits, batch, most) else _NONE
    if not ours:
        if not limits.has_context:
            return Difference.NO_CONTEXT if context else _NONE
        most = most_context_kv_blocks_for_query(limits, shorter + 1)
        return Difference.TOO_MUCH_CONTEXT if context > most or _largest(limits, query, context) else _NONE
    if query == limits.longest_query:
        return Difference.LONGEST_QUERY
    return Difference.MOST_CONTEXT if context == most_context_kv_blocks_for_query(limits, shorter + 1) else _NONE


_NONE = Difference.UNEXPLAINED


def _largest(limits: Limits, query: int, context: int) -> bool:
    """Return True if this is the plugin's largest planned context for this query, or the largest for any query."""
    least = (limits.max_model_len - query) // limits.block_size
    return context >= min(least, (limits.max_model_len - limits.max_num_batched_tokens) // limits.block_size)


def resource_differences(base: RuntimeConfig, strategy: Strategy, blocks: int) -> dict[str, Any]:
    """Return the kinds of differences between a resource's plan and the plugin's plan, and unexplained differences."""
    logging.disable(logging.CRITICAL)
    kinds, unexplained = set(), []
    for limits, splits in product(LIMITS, (True, None)):
        resource_limits = limits.model_copy(update={"gapless": True, "splits_prompts": splits})
        config = base.model_copy(update={"limits": resource_limits, "bucketing": BucketPolicy(strategy=strategy)})
        size = limits.block_size
        plan = make_plan_for_device(config.bucketing, resource_limits, DeviceBlocks(blocks, size, size, bounded=False))
        for phase, planned in plugin_plan(config, blocks).items():
            mine = {tuple(each) for each in plan.buckets_of(phase)}
            queries = sorted({0, *(query for _, query, _ in mine)})
            for bucket in mine ^ planned:
                shorter = queries[bisect_left(queries, bucket[1]) - 1]
                why = reason(phase, bucket, resource_limits, blocks, shorter, bucket in mine)
                kinds.add(why)
                if why is _NONE:
                    unexplained.append([str(resource_limits), str(phase), bucket, bucket in mine])
    return {"kinds": sorted(kinds), "unexplained": unexplained[:3]}


@pytest.mark.parametrize("strategy", RANGED)
def test_plan_of_a_resource_differs_only_for_known_reasons(
    base: RuntimeConfig, strategy: Strategy, tmp_path: Path
) -> None:
    found = call_in_fork(partial(resource_differences, base, strategy, BLOCKS[0]), tmp_path)
    assert found["unexplained"] == []
    assert {Difference.NO_CONTEXT, Difference.MOST_CONTEXT} <= set(found["kinds"])


@pytest.mark.parametrize("caching", [True, False])
def test_plugin_keeps_the_same_buckets_of_a_bucket_file(base: RuntimeConfig, tmp_path: Path, caching: bool) -> None:
    (tmp_path / "buckets.txt").write_text(FILE)
    limits = Limits(
        max_model_len=1024,
        max_num_seqs=4,
        max_num_batched_tokens=512,
        prefix_caching=caching,
        contiguous_paged_attention=not caching,
    )
    policy = BucketPolicy(strategy=Strategy.FILE, file=FILE)
    config = base.model_copy(update={"limits": limits, "bucketing": policy})
    with mock.patch.dict(os.environ, {"VLLM_BUCKETING_FROM_FILE": str(tmp_path / "buckets.txt")}):
        assert call_in_fork(partial(differences, config, 300), tmp_path) is None
