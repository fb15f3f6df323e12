"""Decode buckets of speculative decoding with a fake plugin: a bucket is run in each way that steps use it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.engines.vllm.workers.speculative import NO_MATCH, equalize_drafts
from gaudi_runtime.planning.planner import make_plan
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.driven import plain
from tests.unit.runtime.engines.vllm.workers.stand_in import KV_BLOCKS, bridge, plugin

POLICY = BucketPolicy(
    strategy=Strategy.LINEAR,
    prompt=PromptRanges(query=BucketingRangeSettings(min=128, step=128, max=512)),
    decode=DecodeRanges(
        batch_size=BucketingRangeSettings(min=1, step=2, max=4), blocks=BucketingRangeSettings(min=8, step=8, max=24)
    ),
)


LIMITS = Limits(
    max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024, contiguous_paged_attention=False, draft_tokens=2
)
PLAN = make_plan(POLICY, LIMITS, KV_BLOCKS)


def verbs_with_drafts(card: Card, seeds: Sequence[Bucket] = PLAN.seeds) -> tuple[HpuVerbs, Any]:
    runner = plugin(card, drafts=2)
    runner.max_model_len = 1024
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan(PLAN.prompt, PLAN.decode, seeds)
    card.log.clear()
    return verbs, runner


def test_describe_returns_the_number_of_draft_tokens() -> None:
    assert plain(verbs_with_drafts(Card())[0].describe())["draft_tokens"] == 2


def test_bucket_is_warmed_with_and_without_drafts() -> None:
    card = Card()
    verbs_with_drafts(card)[0].warm("decode", [3, 1, 24])
    assert card.log == [
        "_prepare_dummy_scenario(None, (3, 1, 24)) compile-only",
        "_prepare_dummy_scenario(None, (3, 1, 24)) compile-only of 1 sequences with 3 tokens",
    ]


def test_every_planned_bucket_can_be_warmed() -> None:
    card = Card()
    verbs, _ = verbs_with_drafts(card)
    for bucket in PLAN.decode:
        assert verbs.warm("decode", list(bucket))["out_of_memory"] is None


def test_bucket_to_which_no_step_is_padded_needs_no_graph() -> None:
    """One sequence with two drafts takes three rows.

    The sequence has at most 8 blocks and reads each block three times.
    """
    card = Card()
    verbs, runner = verbs_with_drafts(card)
    runner.bucketing_manager.decode_buckets.extend([(7, 1, 24)])
    outcome = verbs.capture("decode", [7, 1, 24])
    assert (outcome["graph"], outcome["bytes"], card.log) == (True, 0, [])


def test_batch_size_of_a_step_with_drafts_is_its_rows() -> None:
    card = Card()
    verbs, runner = verbs_with_drafts(card)
    verbs.capture("decode", [6, 1, 24])
    verbs.start_serving()
    verbs.step(lambda: step_of(runner, sequences=2, tokens=3, highest=20))
    assert plain(verbs.counters())["met"] == [["decode", [6, 1, 20], [6, 1, 24, True], 1, 0]]


def test_graph_captured_for_single_tokens_is_cold_for_drafts() -> None:
    """torch.compile and the plugin distinguish steps with drafts from steps without, so each needs its own graph."""
    card = Card()
    verbs, runner = verbs_with_drafts(card)
    verbs.capture("decode", [1, 1, 24])
    verbs.start_serving()
    verbs.step(lambda: step_of(runner, sequences=1, tokens=3, highest=20))
    assert [each[2] for each in plain(verbs.counters())["met"]] == [[3, 1, 24, False]]


def test_graph_captured_with_drafts_is_cold_for_single_tokens() -> None:
    """If all seeds have one sequence, a bucket of three rows is captured only for steps with drafts."""
    card = Card()
    verbs, runner = verbs_with_drafts(card, [seed for seed in PLAN.seeds if seed[0] == 1])
    verbs.capture("decode", [3, 1, 24])
    verbs.start_serving()
    verbs.step(lambda: step_of(runner, sequences=3, tokens=1, highest=20))
    assert [each[2] for each in plain(verbs.counters())["met"]] == [[3, 1, 24, False]]


def step_of(runner: Any, sequences: int, tokens: int, highest: int) -> None:
    manager = runner.bucketing_manager
    rows = manager.find_decode_bucket(sequences, sequences, tokens > 1)[0] * tokens
    metadata = SimpleNamespace(is_prompt=False, tokens=rows)
    runner._check_config(rows, 1, manager.find_decode_bucket(rows, highest)[2], metadata, False)
    runner._use_graphs(metadata, rows)


@pytest.mark.parametrize(
    ("drafted", "even"),
    [
        ([[5, 6], [7]], [[5, 6], [7, NO_MATCH]]),
        ([[-1], [-1]], [[NO_MATCH] * 2] * 2),
    ],
)
def test_every_sequence_gets_the_same_number_of_drafts(drafted: list[list[int]], even: list[list[int]]) -> None:
    """If a sequence had fewer drafts, the plugin would compute position 0 and overwrite the first token."""
    assert equalize_drafts(batch_of(100, 200), drafted) == even


def test_drafts_are_dropped_if_a_sequence_is_at_maximum_length() -> None:
    assert equalize_drafts(batch_of(100, 1022), [[5, 6], [7]]) == [[], []]


def batch_of(*lengths: int) -> Any:
    runner = plugin(Card(), drafts=2)
    runner.max_model_len = 1024
    runner.input_batch = SimpleNamespace(num_reqs=len(lengths), num_tokens_no_spec=[*lengths, 5000])
    return runner
