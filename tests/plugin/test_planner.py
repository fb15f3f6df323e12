"""Our plans against those of the plugin's own planner, told the same by the variables that we render."""

import logging
import os
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gaudi_runtime.buckets.bucket import DeviceBlocks
from gaudi_runtime.buckets.planner import make_plan, plan_of_device
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.knobs.render import render
from tests.plugin.cases import PAIRWISE, configured
from tests.plugin.engine import forked

Shapes = set[tuple[int, int, int]]
LAYOUTS = ((False, True), (False, False), (True, False))
"""Prefix caching and contiguous blocks: with both the plugin switches prefix caching off."""
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
    return configured(PAIRWISE[0], checkpoints["llama"])


def theirs(config: RuntimeConfig, blocks: int) -> dict[BucketPhase, Shapes]:
    """What the plugin plans under the environment of this configuration; raises what it raises."""
    import vllm_gaudi.extension.environment as environment
    import vllm_gaudi.extension.runtime as runtime
    from vllm_gaudi.extension.bucketing.common import HPUBucketingManager

    limits = config.limits
    with mock.patch.dict(os.environ, render(config).env):
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
    """Which buckets only one of both plans; None where none."""
    size = config.limits.block_size
    # Release 0.26 bounds no decode range by the blocks that exist, as later ones do for models of plain attention.
    plan = plan_of_device(config.bucketing, config.limits, DeviceBlocks(blocks, size, size, bounded=False))
    for phase, planned in theirs(config, blocks).items():
        ours = {tuple(each) for each in plan.of(phase)}
        ranged = config.bucketing.strategy is not Strategy.FILE
        if phase is BucketPhase.PROMPT and ranged and not config.limits.prefix_caching:
            # Without prefix caching and pieces of split prompts we plan no context (docs/internals/bucketing.md).
            planned = {each for each in planned if each[2] == 0}
        if ours != planned:
            return f"{phase}: only we {sorted(ours - planned)[:3]}, only the plugin {sorted(planned - ours)[:3]}"
    return None


def wrong_plans(base: RuntimeConfig, strategy: Strategy, blocks: int) -> dict[str, str]:
    """What differs, by limits."""
    logging.disable(logging.CRITICAL)
    wrong = {}
    for limits in LIMITS:
        config = base.model_copy(update={"limits": limits, "bucketing": BucketPolicy(strategy=strategy)})
        if found := differences(config, blocks):
            wrong[str(limits)] = found
    return wrong


# In processes of their own: the plugin keeps what it was configured with, and engines are forked from this one.
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("strategy", RANGED)
def test_every_plan_is_the_plugins_own(base: RuntimeConfig, strategy: Strategy, blocks: int, tmp_path: Path) -> None:
    assert forked(partial(wrong_plans, base, strategy, blocks), tmp_path) == {}


def uncovered_pieces(base: RuntimeConfig, strategy: Strategy, blocks: int) -> dict[str, Any]:
    """Batches, by limits, that a bucket of the plugin's holds, and none of our plan for pieces of split prompts."""
    logging.disable(logging.CRITICAL)
    missing = {}
    # Every fifth: with pieces linear plans have thousands of buckets.
    for limits in [each for each in LIMITS if not each.prefix_caching][::5]:
        pieces = limits.model_copy(update={"pieces_planned": True})
        config = base.model_copy(update={"limits": pieces, "bucketing": BucketPolicy(strategy=strategy)})
        plan = make_plan(config.bucketing, pieces, blocks)
        prompts = theirs(config, blocks)[BucketPhase.PROMPT]
        longest = {1, *(query for _, query, _ in prompts), *(query + 1 for _, query, _ in prompts)}
        for batch, query, context in prompts:
            for length in (each for each in longest if each <= min(query, limits.max_model_len)):
                # Of a block that is filled in part one token counts.
                most = min(context, ceil((limits.max_model_len - length) / limits.block_size))
                if plan.find(BucketPhase.PROMPT, batch, length, most) is None:
                    missing[str(limits)] = (batch, length, most)
    return missing


@pytest.mark.parametrize("strategy", RANGED)
def test_pieces_find_a_bucket_wherever_the_plugin_has_one(
    base: RuntimeConfig, strategy: Strategy, tmp_path: Path
) -> None:
    assert forked(partial(uncovered_pieces, base, strategy, BLOCKS[0]), tmp_path) == {}


@pytest.mark.parametrize("caching", [True, False])
def test_buckets_of_a_file_are_those_that_the_plugin_keeps(base: RuntimeConfig, tmp_path: Path, caching: bool) -> None:
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
        assert forked(partial(differences, config, 300), tmp_path) is None
