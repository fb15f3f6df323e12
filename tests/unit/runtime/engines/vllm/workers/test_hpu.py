"""Calls of a worker on a Gaudi card: profile, plan, warm-up, bytes of a capture, and buckets that get no graph."""

from dataclasses import dataclass, field

import pytest

from gaudi_runtime.engines.vllm.workers.capabilities import UNBOUNDED
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from tests.unit.runtime.engines.vllm.workers.card import GIB, MIB, Card
from tests.unit.runtime.engines.vllm.workers.driven import DECODE, PROMPT, plain, verbs_on
from tests.unit.runtime.engines.vllm.workers.stand_in import bridge, plugin


def test_warm_compiles_one_bucket_and_captures_no_graph() -> None:
    card = Card()
    assert verbs_on(card).warm("prompt", PROMPT) == {"bytes": 0, "graph": False, "out_of_memory": None}
    assert card.log == ["_prepare_dummy_scenario((2, 256, 0), None) compile-only"]


def test_capture_returns_the_decrease_of_free_memory() -> None:
    card = Card()
    outcome = plain(verbs_on(card).capture("prompt", PROMPT))
    assert outcome == {"bytes": 2 * 256 * MIB, "graph": True, "out_of_memory": None}
    assert card.log == ["_prepare_dummy_scenario((2, 256, 0), None) -> graph"]


def test_decode_bucket_is_passed_as_decode_dummy_scenario() -> None:
    card = Card()
    verbs_on(card).warm("decode", DECODE)
    assert card.log == ["_prepare_dummy_scenario(None, (4, 1, 64)) compile-only"]


def test_capture_under_torch_compile_uses_no_memory() -> None:
    card = Card(lazy=False)
    verbs = verbs_on(card)
    assert verbs.warm("decode", DECODE)["bytes"] == card.per_decode_graph
    assert verbs.capture("decode", DECODE) == {"bytes": 0, "graph": True, "out_of_memory": None}


@pytest.mark.parametrize("lazy", [True, False])
def test_modes_without_graphs_refuse_to_capture(lazy: bool) -> None:
    card = Card(lazy=lazy)
    with pytest.raises(ValueError, match="has no graphs to capture"):
        verbs_on(card, graphs=False).capture("decode", DECODE)


def test_prompt_above_the_plugin_token_limit_has_no_graph() -> None:
    card = Card(free=GIB * 32)
    assert verbs_on(card).capture("prompt", [1, 16384, 0]) == {"bytes": 0, "graph": False, "out_of_memory": None}


def test_out_of_memory_is_returned_with_its_bucket() -> None:
    card = Card(fails_at=(2, 256, 0))
    outcome = plain(verbs_on(card).capture("prompt", PROMPT))
    assert (outcome["graph"], outcome["bytes"]) == (False, 0)
    assert outcome["out_of_memory"].startswith("the device ran out of memory at prompt bucket (2, 256, 0)")


def test_no_dummy_batch_runs_after_out_of_memory() -> None:
    card = Card(fails_at=(2, 256, 0))
    verbs = verbs_on(card)
    first = verbs.capture("prompt", PROMPT)
    card.log.clear()
    assert verbs.warm("decode", DECODE)["out_of_memory"] == first["out_of_memory"]
    assert card.log == []


@dataclass
class Batch:
    """The plugin's batch: rows by name, and the rows to condense, which callers must pass in descending order."""

    req_id_to_index: dict[str, int]
    condensed: list[int] = field(default_factory=list)

    def remove_request(self, name: str) -> int:
        return self.req_id_to_index.pop(name)

    def condense(self, rows: list[int]) -> None:
        self.condensed = rows


def test_out_of_memory_leaves_no_dummy_request_in_the_runner() -> None:
    card = Card(fails_at=(2, 256, 0))
    runner = plugin(card)
    runner.requests, runner.scheduler_output = {"dummy": object()}, object()
    runner.input_batch = batch = Batch({"dummy-0": 0, "dummy-1": 1})
    verbs_on(card, runner).capture("prompt", PROMPT)
    assert (runner.requests, runner.scheduler_output) == ({}, None)
    assert (batch.req_id_to_index, batch.condensed) == ({}, [1, 0])


def test_memory_errors_of_the_bridge_are_recognized() -> None:
    """The first message does not contain the word "memory"."""
    for words in ("PT_DEVMEM Allocation failed for size::512 MB", "PT_DEVMEM OOM: No enough memory"):
        card = Card(fails_at=(2, 256, 0), failure=f"[Rank:0] FATAL ERROR :: MODULE:{words}")
        assert verbs_on(card).capture("prompt", PROMPT)["out_of_memory"], words


def test_compile_only_mode_ends_if_a_forward_fails() -> None:
    """The bridge's own context manager has no `finally`, so the mode would stay on after an error."""
    card = Card(fails_at=(2, 256, 0))
    verbs_on(card).warm("prompt", PROMPT)
    assert not card.compile_only


def test_unrelated_errors_of_the_plugin_are_not_out_of_memory() -> None:
    card = Card(fails_at=(2, 256, 0), failure="synStatus 26")
    with pytest.raises(RuntimeError, match="synStatus 26"):
        verbs_on(card).warm("prompt", PROMPT)


def test_bucket_longer_than_any_sequence_is_warmed() -> None:
    """The plugin's own dummy batch has a shorter context, so the plugin would run another bucket."""
    card = Card()
    runner = plugin(card)
    runner.max_model_len = 1024
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 384, 7], [1, 512, 4], [1, 512, 7]], [DECODE])
    card.log.clear()
    assert verbs.capture("prompt", [1, 512, 7])["graph"]
    assert card.log == ["_prepare_dummy_scenario((1, 512, 7), None) -> graph"]


def test_bucket_to_which_no_batch_is_padded_needs_no_graph() -> None:
    card = Card()
    runner = plugin(card)
    runner.max_model_len = 512
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 384, 2], [1, 512, 1], [1, 512, 2]], [DECODE])
    card.log.clear()
    assert verbs.capture("prompt", [1, 512, 2]) == {"bytes": 0, "graph": True, "out_of_memory": None}
    assert card.log == []


def test_out_of_memory_writes_a_note_with_the_bucket() -> None:
    card, left = Card(fails_at=(2, 256, 0)), []
    verbs = HpuVerbs(plugin(card), bridge(card), leave_note=left.append)
    verbs.plan([PROMPT], [DECODE])
    outcome = verbs.warm("prompt", PROMPT)
    assert left == [outcome["out_of_memory"]]
    assert "ran out of memory at prompt bucket (2, 256, 0)" in left[0]


def test_bucket_that_runs_with_another_shape_is_reported() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    other = runner._prepare_dummy_scenario
    runner._prepare_dummy_scenario = lambda prompt_cfg, decode_cfg: other((1, 128, 0), None)
    for outcome in (verbs.warm("prompt", PROMPT), verbs.capture("prompt", PROMPT)):
        assert plain(outcome) == {
            "bytes": 0,
            "graph": False,
            "out_of_memory": None,
            "ran_as": "vllm-gaudi runs this bucket as (1, 128, 0). The runtime and the plugin count shapes "
            "differently. Please report this defect of the runtime",
        }


def test_plugin_gets_the_captured_graphs() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    verbs.capture("decode", DECODE)
    assert runner.graphed_buckets == {(2, 256, 0, True), (4, 1, 64, False)}


def test_our_buckets_replace_those_of_the_plugin() -> None:
    card = Card()
    runner = plugin(card)
    answer = plain(HpuVerbs(runner, bridge(card)).plan([PROMPT, [1, 128, 0]], [DECODE]))
    assert answer == {"prompt": 2, "decode": 1, "degradations": []}
    assert runner.bucketing_manager.prompt_buckets == [(1, 128, 0), (2, 256, 0)]
    assert runner.bucketing_manager.decode_buckets == [(4, 1, 64)]
    assert runner.bucketing_manager._fallback_max_ctx == 64


def test_plan_calls_warmup_model_with_skip_warmup() -> None:
    card = Card()
    HpuVerbs(plugin(card), bridge(card)).plan([PROMPT], [DECODE])
    assert card.log == ["warmup_model() skip_warmup=True"]


def test_second_warmup_model_call_does_not_change_the_plan() -> None:
    card = Card()
    runner = plugin(card)
    verbs_on(card, runner)
    runner.warmup_model()
    assert card.log == ["warmup_model() skip_warmup=True"]
    assert runner.bucketing_manager.decode_buckets == [(4, 1, 64)]


def test_profile_returns_memory_margin_and_blocks() -> None:
    card = Card()
    assert plain(HpuVerbs(plugin(card), bridge(card)).profile()) == {
        "free": 16 * GIB,
        "total": 96 * GIB,
        "margin": GIB,
        "kv_cache": 6 * GIB,
        "kv_blocks": 1519,
        "block_size": 128,
        "decode_block_size": 128,
        "bounded": True,
        "query_step": 1,
    }


def test_decode_block_size_of_hybrids_is_reported_separately() -> None:
    card = Card()
    runner = plugin(card)
    runner.block_size, runner.attn_block_size = 768, 128
    found = plain(HpuVerbs(runner, bridge(card)).profile())
    assert (found["block_size"], found["decode_block_size"], found["bounded"]) == (768, 128, False)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_decode_batches_of_hybrids_are_not_limited(name: str) -> None:
    card = Card()
    runner = plugin(card)
    setattr(runner, name, 4)
    assert plain(HpuVerbs(runner, bridge(card)).profile())["bounded"] is False


@pytest.mark.parametrize(("explicit", "step"), [(True, 256), (False, 1)])
def test_query_step_is_an_explicit_mamba_chunk_size(explicit: bool, step: int) -> None:
    card = Card()
    runner = plugin(card)
    runner.bucketing_manager.mamba_chunk_size = 256
    runner.bucketing_manager.mamba_chunk_size_is_explicit = explicit
    assert plain(HpuVerbs(runner, bridge(card)).profile())["query_step"] == step


def test_sampler_warm_up_is_followed_by_a_partial_prompt() -> None:
    """A piece of a prompt has no logits and is compiled separately.

    The plugin's own warm-up runs whole prompts only.
    """
    card = Card()
    verbs_on(card).sampler()
    assert card.log == ["warmup_sampler()", "_prepare_dummy_scenario((1, 128, 0), None)"]
