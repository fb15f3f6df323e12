"""The verbs of a worker on a Gaudi card, against the stand-in of the plugin."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from gaudi_runtime.contract.report import RECOMPILATION_SECONDS
from gaudi_runtime.engines.vllm.workers.capabilities import UNBOUNDED
from gaudi_runtime.engines.vllm.workers.forwards import ColdShape
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from tests.unit.runtime.vllm_contract.driven import plain
from tests.unit.runtime.vllm_contract.stand_in import GIB, MIB, Card, bridge, plugin, serve

PROMPT, DECODE = [2, 256, 0], [4, 1, 64]


def verbs_on(card: Card, runner: Any = None, **made: Any) -> HpuVerbs:
    verbs = HpuVerbs(runner or plugin(card, **made), bridge(card))
    verbs.plan([PROMPT, [1, 128, 0]], [DECODE])
    card.log.clear()
    return verbs


def test_warming_compiles_one_bucket_and_captures_nothing() -> None:
    card = Card()
    assert verbs_on(card).warm("prompt", PROMPT) == {"bytes": 0, "graph": False, "out_of_memory": None}
    assert card.log == ["_prepare_dummy_scenario((2, 256, 0), None) compile-only"]


def test_capturing_answers_what_the_device_has_less_than_before() -> None:
    card = Card()
    outcome = plain(verbs_on(card).capture("prompt", PROMPT))
    assert outcome == {"bytes": 2 * 256 * MIB, "graph": True, "out_of_memory": None}
    assert card.log == ["_prepare_dummy_scenario((2, 256, 0), None) -> graph"]


def test_decode_buckets_go_to_the_other_side_of_dummy_scenario() -> None:
    card = Card()
    verbs_on(card).warm("decode", DECODE)
    assert card.log == ["_prepare_dummy_scenario(None, (4, 1, 64)) compile-only"]


def test_torch_compile_compiles_when_it_warms_and_captures_nothing_more() -> None:
    card = Card(lazy=False)
    verbs = verbs_on(card)
    assert verbs.warm("decode", DECODE)["bytes"] == card.per_decode_graph
    assert verbs.capture("decode", DECODE) == {"bytes": 0, "graph": True, "out_of_memory": None}


@pytest.mark.parametrize("lazy", [True, False])
def test_modes_without_graphs_refuse_to_capture(lazy: bool) -> None:
    card = Card(lazy=lazy)
    with pytest.raises(ValueError, match="has no graphs to capture"):
        verbs_on(card, graphs=False).capture("decode", DECODE)


def test_prompt_above_plugins_own_limit_is_not_counted_as_graph() -> None:
    card = Card(free=GIB * 32)
    assert verbs_on(card).capture("prompt", [1, 16384, 0]) == {"bytes": 0, "graph": False, "out_of_memory": None}


def test_out_of_memory_is_an_answer_with_its_bucket() -> None:
    card = Card(fails_at=(2, 256, 0))
    outcome = plain(verbs_on(card).capture("prompt", PROMPT))
    assert (outcome["graph"], outcome["bytes"]) == (False, 0)
    assert outcome["out_of_memory"].startswith("the device ran out of memory at prompt bucket (2, 256, 0)")


def test_after_out_of_memory_no_dummy_batch_runs_any_more() -> None:
    card = Card(fails_at=(2, 256, 0))
    verbs = verbs_on(card)
    first = verbs.capture("prompt", PROMPT)
    card.log.clear()
    assert verbs.warm("decode", DECODE)["out_of_memory"] == first["out_of_memory"]
    assert card.log == []


@dataclass
class Batch:
    """The plugin's batch: rows by name, and the rows that it was told to close up, which must come last first."""

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


def test_a_graph_that_failed_is_not_used_while_serving() -> None:
    card = Card(fails_at=(2, 256, 0))
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    assert runner.graphed_buckets == set()
    assert served(verbs, runner, ("prompt", (2, 200, 0))) == [["prompt", [2, 200, 0], [2, 256, 0, False], 1, 0]]


def test_the_bridges_words_for_lack_of_memory_are_known() -> None:
    """The first has no word of memory in it."""
    for words in ("PT_DEVMEM Allocation failed for size::512 MB", "PT_DEVMEM OOM: No enough memory"):
        card = Card(fails_at=(2, 256, 0), failure=f"[Rank:0] FATAL ERROR :: MODULE:{words}")
        assert verbs_on(card).capture("prompt", PROMPT)["out_of_memory"], words


def test_compile_only_mode_is_left_when_a_forward_fails() -> None:
    """The bridge's own context has no finally."""
    card = Card(fails_at=(2, 256, 0))
    verbs_on(card).warm("prompt", PROMPT)
    assert not card.compile_only


def test_other_errors_of_the_plugin_are_no_lack_of_memory() -> None:
    card = Card(fails_at=(2, 256, 0), failure="synStatus 26")
    with pytest.raises(RuntimeError, match="synStatus 26"):
        verbs_on(card).warm("prompt", PROMPT)


def served(verbs: HpuVerbs, runner: Any, *batches: tuple[str, tuple[int, int, int]]) -> Any:
    """The rows of one step with batches of these real sizes."""
    verbs.start_serving()
    verbs.step(partial(serve, runner, *batches))
    return plain(verbs.counters())["met"]


def test_a_bucket_without_a_graph_is_no_hit() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.warm("prompt", PROMPT)
    assert served(verbs, runner, ("prompt", (2, 200, 0))) == [["prompt", [2, 200, 0], [2, 256, 0, False], 1, 0]]


def test_a_bucket_with_a_graph_is_a_hit() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    assert served(verbs, runner, ("decode", (3, 1, 60)), ("prompt", (2, 200, 0))) == [
        ["decode", [3, 1, 60], [4, 1, 64, False], 1, 1],
        ["prompt", [2, 200, 0], [2, 256, 0, True], 1, 0],
    ]


def test_context_of_prompts_counts_for_one_sequence() -> None:
    """The plugin checks it for the whole batch."""
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[2, 128, 3]], [DECODE])
    verbs.capture("prompt", [2, 128, 3])
    assert served(verbs, runner, ("prompt", (2, 100, 2))) == [["prompt", [2, 100, 2], [2, 128, 3, True], 1, 0]]


def test_shape_without_a_bucket_never_becomes_one() -> None:
    """The plugin would pad the second prompt, whose bucket has a graph, to the shape of the first."""
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 128, 0]], [DECODE])
    verbs.capture("prompt", [1, 128, 0])
    served(verbs, runner, ("prompt", (1, 90, 1)))
    assert served(verbs, runner, ("prompt", (1, 90, 0))) == [["prompt", [1, 90, 0], [1, 128, 0, True], 1, 0]]
    assert runner.bucketing_manager.prompt_buckets == [(1, 128, 0)]


def test_batches_are_padded_past_a_bucket_that_stayed_cold() -> None:
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 128, 0], [1, 256, 0]], [[2, 1, 64], [4, 1, 64], [4, 1, 96]])
    verbs.capture("prompt", [1, 256, 0])
    verbs.capture("decode", [4, 1, 64])
    verbs.use_warm([[1, 256, 0]], [[4, 1, 64]])
    assert served(verbs, runner, ("prompt", (1, 90, 0)), ("decode", (2, 1, 60))) == [
        ["prompt", [1, 90, 0], [1, 256, 0, True], 1, 0],
        ["decode", [2, 1, 60], [4, 1, 64, True], 1, 0],
    ]
    # Blocks of a larger batch are not cut to those of the warm buckets.
    assert runner.bucketing_manager._fallback_max_ctx == 96


def test_bucket_longer_than_any_sequence_is_warmed_all_the_same() -> None:
    """The plugin's own dummy would cut its context, and so run the bucket with less."""
    card = Card()
    runner = plugin(card)
    runner.max_model_len = 1024
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 384, 7], [1, 512, 4], [1, 512, 7]], [DECODE])
    card.log.clear()
    assert verbs.capture("prompt", [1, 512, 7])["graph"]
    assert card.log == ["_prepare_dummy_scenario((1, 512, 7), None) -> graph"]


def test_bucket_that_no_batch_can_meet_needs_no_graph() -> None:
    card = Card()
    runner = plugin(card)
    runner.max_model_len = 512
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 384, 2], [1, 512, 1], [1, 512, 2]], [DECODE])
    card.log.clear()
    assert verbs.capture("prompt", [1, 512, 2]) == {"bytes": 0, "graph": True, "out_of_memory": None}
    assert card.log == []


def test_rank_that_runs_out_of_memory_leaves_a_note() -> None:
    card, left = Card(fails_at=(2, 256, 0)), []
    verbs = HpuVerbs(plugin(card), bridge(card), leave_note=left.append)
    verbs.plan([PROMPT], [DECODE])
    outcome = verbs.warm("prompt", PROMPT)
    assert left == [outcome["out_of_memory"]]
    assert "ran out of memory at prompt bucket (2, 256, 0)" in left[0]


def test_bucket_that_plugin_runs_as_another_is_said() -> None:
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
            "ran_as": "vllm-gaudi runs it as (1, 128, 0): the two count shapes differently, which is a defect of this "
            "runtime; please report it",
        }


@pytest.mark.parametrize(
    ("batch", "prompt", "merged"),
    [
        pytest.param([200], [256], True, id="a bucket holds both"),
        pytest.param([1], [1, 1], False, id="only a new shape would hold them"),
        pytest.param([200], [300], False, id="too many tokens for the plugin"),
    ],
)
def test_prompts_share_a_batch_only_where_a_bucket_holds_them(
    batch: list[int], prompt: list[int], merged: bool
) -> None:
    card = Card()
    runner = plugin(card)
    verbs_on(card, runner)
    assert runner._can_merge_prefill_contents(batch, prompt) is merged


def compiling(runner: Any, card: Card, *seconds: float) -> None:
    """Every forward of this runner compiles recipes that take so long."""
    check = runner._check_config

    def checked(*shape: Any) -> None:
        check(*shape)
        for each in seconds:
            card.compile(each)

    runner._check_config = checked


MODES = pytest.mark.parametrize("lazy", [True, False], ids=["HpuGraphs", "TorchCompile"])


@MODES
def test_all_recipes_of_one_forward_are_one_recompilation(lazy: bool) -> None:
    card = Card(lazy=lazy)
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    for phase, bucket in (("prompt", PROMPT), ("decode", DECODE)):
        verbs.warm(phase, bucket)
        verbs.capture(phase, bucket)
    compiling(runner, card, 0.09, 0.09)
    found = served(verbs, runner, ("prompt", (2, 200, 0)), ("decode", (3, 1, 60)))
    assert found == [
        ["prompt", [2, 200, 0], [2, 256, 0, False], 1, 1],
        ["decode", [3, 1, 60], [4, 1, 64, False], 1, 1],
    ]


@MODES
def test_compiles_up_to_the_threshold_are_no_recompilation(lazy: bool) -> None:
    card = Card(lazy=lazy)
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    for execute in (verbs.warm, verbs.capture):
        execute("prompt", PROMPT)
    compiling(runner, card, RECOMPILATION_SECONDS / 2, RECOMPILATION_SECONDS / 2)
    verbs.start_serving()
    verbs.step(partial(serve, runner, ("prompt", (2, 200, 0))))
    counters = plain(verbs.counters())
    assert counters["met"] == [["prompt", [2, 200, 0], [2, 256, 0, True], 1, 0]]
    assert counters["compile_times"] == [
        ["warm", 1, 2.0, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]],
        ["serving", 2, RECOMPILATION_SECONDS, [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]],
    ]


def test_compiles_before_a_first_forward_are_its_own() -> None:
    """Such as the moves of a defragmenter, for which its requests wait."""
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    verbs.start_serving()
    card.compile()
    verbs.step(partial(serve, runner, ("prompt", (2, 200, 0))))
    assert [row[-1] for row in plain(verbs.counters())["met"]] == [1]


class Queued:
    """The answer of a step that the card has not finished."""

    def get_output(self) -> None: ...


def test_compile_that_ends_late_counts_for_its_own_batch() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("decode", DECODE)
    card.compiled.add((32, 1, 96, False))  # its compile ends later
    verbs.start_serving()

    def step(batch: tuple[int, int, int]) -> Queued:
        serve(runner, ("decode", batch))
        return Queued()

    verbs.step(partial(step, (9, 1, 70)))
    assert plain(verbs.counters())["met"] == [["decode", [9, 1, 70], [32, 1, 96, False], 1, 0]]
    card.compile()
    verbs.step(partial(step, (3, 1, 60)))
    assert plain(verbs.counters())["met"] == [
        ["decode", [9, 1, 70], [32, 1, 96, False], 0, 1],
        ["decode", [3, 1, 60], [4, 1, 64, True], 1, 0],
    ]


@MODES
def test_cold_shapes_are_refused_before_they_run(lazy: bool) -> None:
    card = Card(lazy=lazy)
    runner = plugin(card)
    left: list[str] = []
    verbs = HpuVerbs(runner, bridge(card), fail_on_cold_shapes=True, leave_note=left.append)
    verbs.plan([PROMPT], [DECODE])
    verbs.warm("prompt", PROMPT)
    compiled = card.recipes
    with pytest.raises(ColdShape, match=r"prompt shape \(32, 32, 0\) was not warmed up, and warmup.failOnColdShapes"):
        served(verbs, runner, ("prompt", (3, 5, 0)))
    assert "prompt shape (32, 32, 0)" in left[0]
    assert served(verbs, runner, ("prompt", (2, 200, 0)))[0][-2:] == [1, 0]
    assert card.recipes == compiled


@pytest.mark.parametrize(("fail", "graphs"), [(False, True), (True, False)])
def test_other_pods_run_cold_shapes_and_count_them(fail: bool, graphs: bool) -> None:
    card = Card()
    runner = plugin(card, graphs=graphs)
    verbs = HpuVerbs(runner, bridge(card), fail_on_cold_shapes=fail)
    verbs.plan([PROMPT], [DECODE])
    assert [row[-1] for row in served(verbs, runner, ("prompt", (3, 5, 0)))] == [1]


def test_the_plugin_knows_the_graphs_that_there_are() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    verbs.capture("decode", DECODE)
    assert runner.graphed_buckets == {(2, 256, 0, True), (4, 1, 64, False)}


def test_our_buckets_take_the_place_of_the_plugins_own() -> None:
    card = Card()
    runner = plugin(card)
    answer = plain(HpuVerbs(runner, bridge(card)).plan([PROMPT, [1, 128, 0]], [DECODE]))
    assert answer == {"prompt": 2, "decode": 1, "degradations": []}
    assert runner.bucketing_manager.prompt_buckets == [(1, 128, 0), (2, 256, 0)]
    assert runner.bucketing_manager.decode_buckets == [(4, 1, 64)]
    assert runner.bucketing_manager._fallback_max_ctx == 64


def test_the_plugin_prepares_itself_and_warms_nothing() -> None:
    card = Card()
    HpuVerbs(plugin(card), bridge(card)).plan([PROMPT], [DECODE])
    assert card.log == ["warmup_model() skip_warmup=True"]


def test_a_plan_stays_ours_when_vllm_warms_up_once_more() -> None:
    card = Card()
    runner = plugin(card)
    verbs_on(card, runner)
    runner.warmup_model()
    assert card.log == ["warmup_model() skip_warmup=True"]
    assert runner.bucketing_manager.decode_buckets == [(4, 1, 64)]


def test_the_profile_tells_memory_margin_and_blocks() -> None:
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


def test_blocks_of_another_size_than_attention_are_told_apart() -> None:
    card = Card()
    runner = plugin(card)
    runner.block_size, runner.attn_block_size = 768, 128
    found = plain(HpuVerbs(runner, bridge(card)).profile())
    assert (found["block_size"], found["decode_block_size"], found["bounded"]) == (768, 128, False)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_decode_batches_of_hybrids_are_not_bounded(name: str) -> None:
    card = Card()
    runner = plugin(card)
    setattr(runner, name, 4)
    assert plain(HpuVerbs(runner, bridge(card)).profile())["bounded"] is False


@pytest.mark.parametrize(("explicit", "step"), [(True, 256), (False, 1)])
def test_chunks_of_mamba_are_the_step_of_queries(explicit: bool, step: int) -> None:
    card = Card()
    runner = plugin(card)
    runner.bucketing_manager.mamba_chunk_size = 256
    runner.bucketing_manager.mamba_chunk_size_is_explicit = explicit
    assert plain(HpuVerbs(runner, bridge(card)).profile())["query_step"] == step


def test_sampler_and_defragmenter_are_warmed_by_the_plugin() -> None:
    card = Card()
    verbs = verbs_on(card)
    assert verbs.sampler() == verbs.defragmenter() == {"done": True}
    assert [card.log[0], card.log[-1]] == ["warmup_sampler()", "defragmenter.warmup()"]


def test_sampler_is_followed_by_a_piece_of_a_prompt() -> None:
    """What has no logits is compiled by itself, and the plugin's own warm-up finishes every prompt."""
    card = Card()
    verbs_on(card).sampler()
    assert card.log == ["warmup_sampler()", "_prepare_dummy_scenario((1, 128, 0), None)"]


def test_serving_begins_with_a_fresh_defragmenter() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    used = runner.defragmenter
    verbs.start_serving()
    assert runner.defragmenter is not used
    assert (runner.defragmenter.kv_caches, runner.defragmenter.block_size) == (used.kv_caches, used.block_size)


@pytest.mark.parametrize(("graphed", "warmed", "times"), [(True, True, 2), (False, True, 1), (True, False, 0)])
def test_swaps_with_graphs_are_warmed_once_more(graphed: bool, warmed: bool, times: int) -> None:
    """Graphs belong to the defragmenter that captured them, and serving begins with another."""
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    if warmed:
        verbs.defragmenter()
    runner.defragmenter.graphed = graphed
    verbs.start_serving()
    assert card.log.count("defragmenter.warmup()") == times


@pytest.mark.parametrize("missing", [(), ("graph_compilation",)])
def test_shape_unseen_by_warm_up_counts_as_compiled_once(missing: tuple[str, ...]) -> None:
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card, *missing))
    verbs.plan([PROMPT], [DECODE])
    row = ["decode", [9, 1, 70], [32, 1, 96, False], 1]
    assert served(verbs, runner, ("decode", (9, 1, 70))) == [[*row, 1]]
    assert served(verbs, runner, ("decode", (9, 1, 70))) == [[*row, 0]]


def test_what_warm_up_runs_is_not_counted_as_served() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.step(partial(serve, runner, ("prompt", (1, 100, 0))))
    assert plain(verbs.counters()) == {"met": []}


def test_what_was_counted_is_handed_over_once() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    assert len(served(verbs, runner, ("prompt", (1, 100, 0)))) == 1
    assert plain(verbs.counters())["met"] == []


def test_forward_that_checks_no_shape_gives_no_other_bucket_graph() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.warm("prompt", PROMPT)
    runner._prepare_dummy_scenario = lambda prompt_cfg, decode_cfg: None
    verbs.capture("decode", DECODE)
    assert served(verbs, runner, ("prompt", (2, 200, 0)))[0][2] == [2, 256, 0, False]
