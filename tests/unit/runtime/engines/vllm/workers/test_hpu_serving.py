"""Serving by a worker on a Gaudi card: the shapes that it counts and refuses, with a fake of the plugin."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.contract.compiles import RECOMPILATION_SECONDS
from gaudi_runtime.engines.vllm.workers.forwards import ColdShape
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.errors import EngineUnsupported
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.driven import DECODE, PROMPT, plain, verbs_on
from tests.unit.runtime.engines.vllm.workers.stand_in import bridge, plugin, sample, serve


def test_bucket_whose_capture_failed_is_served_cold() -> None:
    card = Card(fails_at=(2, 256, 0))
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    assert runner.graphed_buckets == set()
    assert serve_step(verbs, runner, ("prompt", (2, 200, 0))) == [["prompt", [2, 200, 0], [2, 256, 0, False], 1, 0]]


def serve_step(verbs: HpuVerbs, runner: Any, *batches: tuple[str, tuple[int, int, int]]) -> Any:
    """Return the rows of one step with batches of these sizes."""
    verbs.start_serving()
    verbs.step(partial(serve, runner, *batches))
    return plain(verbs.counters())["met"]


def test_bucket_without_a_graph_is_no_hit() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.warm("prompt", PROMPT)
    assert serve_step(verbs, runner, ("prompt", (2, 200, 0))) == [["prompt", [2, 200, 0], [2, 256, 0, False], 1, 0]]


def test_bucket_with_a_graph_is_a_hit() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    assert serve_step(verbs, runner, ("decode", (3, 1, 60)), ("prompt", (2, 200, 0))) == [
        ["decode", [3, 1, 60], [4, 1, 64, False], 1, 1],
        ["prompt", [2, 200, 0], [2, 256, 0, True], 1, 0],
    ]


def test_context_of_a_prompt_batch_is_checked_once_per_batch() -> None:
    """The plugin checks the context of the whole batch, but a bucket has the context of one sequence."""
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[2, 128, 3]], [DECODE])
    verbs.capture("prompt", [2, 128, 3])
    assert serve_step(verbs, runner, ("prompt", (2, 100, 2))) == [["prompt", [2, 100, 2], [2, 128, 3, True], 1, 0]]


def test_served_shape_without_a_bucket_is_not_added_as_bucket() -> None:
    """The plugin would pad the second prompt, whose bucket has a graph, to the shape of the first."""
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 128, 0]], [DECODE])
    verbs.capture("prompt", [1, 128, 0])
    serve_step(verbs, runner, ("prompt", (1, 90, 1)))
    assert serve_step(verbs, runner, ("prompt", (1, 90, 0))) == [["prompt", [1, 90, 0], [1, 128, 0, True], 1, 0]]
    assert runner.bucketing_manager.prompt_buckets == [(1, 128, 0)]


def test_batches_are_padded_past_a_cold_bucket() -> None:
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([[1, 128, 0], [1, 256, 0]], [[2, 1, 64], [4, 1, 64], [4, 1, 96]])
    verbs.capture("prompt", [1, 256, 0])
    verbs.capture("decode", [4, 1, 64])
    verbs.use_warm([[1, 256, 0]], [[4, 1, 64]])
    assert serve_step(verbs, runner, ("prompt", (1, 90, 0)), ("decode", (2, 1, 60))) == [
        ["prompt", [1, 90, 0], [1, 256, 0, True], 1, 0],
        ["decode", [2, 1, 60], [4, 1, 64, True], 1, 0],
    ]
    # The plugin limits the blocks of a batch without a bucket to this value. The value is the maximum of the whole plan
    # (96), not of the warm buckets (64).
    assert runner.bucketing_manager._fallback_max_ctx == 96


@pytest.mark.parametrize(
    ("batch", "prompt", "merged"),
    [
        pytest.param([200], [256], True, id="a bucket holds both"),
        pytest.param([1], [1, 1], False, id="only a new shape would hold them"),
        pytest.param([200], [300], False, id="too many tokens for the plugin"),
    ],
)
def test_prompts_are_merged_only_if_a_bucket_is_large_enough(batch: list[int], prompt: list[int], merged: bool) -> None:
    card = Card()
    runner = plugin(card)
    verbs_on(card, runner)
    assert runner._can_merge_prefill_contents(batch, prompt) is merged


def with_compile_times(runner: Any, card: Card, *seconds: float) -> None:
    """Make every forward of this runner compile one recipe for each duration in `seconds`."""
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
    with_compile_times(runner, card, 0.09, 0.09)
    found = serve_step(verbs, runner, ("prompt", (2, 200, 0)), ("decode", (3, 1, 60)))
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
    with_compile_times(runner, card, RECOMPILATION_SECONDS / 2, RECOMPILATION_SECONDS / 2)
    verbs.start_serving()
    verbs.step(partial(serve, runner, ("prompt", (2, 200, 0))))
    counters = plain(verbs.counters())
    assert counters["met"] == [["prompt", [2, 200, 0], [2, 256, 0, True], 1, 0]]
    assert counters["compile_times"] == [
        ["warm", 1, 2.0, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]],
        ["serving", 2, RECOMPILATION_SECONDS, [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]],
    ]


def test_compile_before_a_forward_counts_for_other_operations() -> None:
    """For example, a defragmenter may compile before a forward, and the forward's requests wait for the compile."""
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    verbs.start_serving()
    card.compile()
    verbs.step(partial(serve, runner, ("prompt", (2, 200, 0))))
    assert plain(verbs.counters()) | {"compile_times": None} == {
        "met": [["prompt", [2, 200, 0], [2, 256, 0, True], 1, 0]],
        "compile_times": None,
        "step_compiles": [["other", "", 1, 2.0]],
    }


def test_graph_of_dynamo_in_a_forward_is_a_recompilation() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("prompt", PROMPT)
    verbs.start_serving()
    check = runner._check_config
    runner._check_config = lambda *shape: (check(*shape), card.trace())
    verbs.step(partial(serve, runner, ("prompt", (2, 200, 0))))
    assert plain(verbs.counters())["met"] == [["prompt", [2, 200, 0], [2, 256, 0, False], 1, 1]]


def sampled_step(card: Card, compute: Callable[[], None], *sampling: dict[str, Any]) -> Any:
    """Return the counts of a step that samples one token for each request with these parameters."""
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("decode", DECODE)
    plain(verbs.counters())
    verbs.start_serving()
    names = [f"request {number}" for number in range(len(sampling))]
    runner.requests = {
        name: SimpleNamespace(sampling_params=SimpleNamespace(**{"temperature": 0.0, **each}))
        for name, each in zip(names, sampling, strict=True)
    }

    def execute() -> None:
        serve(runner, ("decode", (3, 1, 60)))
        sample(runner, names, compute)

    verbs.step(execute)
    return plain(verbs.counters())


@MODES
def test_recipes_of_the_sampler_leave_the_forward_warm(lazy: bool) -> None:
    card = Card(lazy=lazy)
    found = sampled_step(card, partial(card.compile, 0.2), {"logprobs": 5})
    assert found["met"] == [["decode", [3, 1, 60], [4, 1, 64, True], 1, 0]]
    assert found["step_compiles"] == [["sampler", "logprobs", 1, 0.2]]


def test_graph_of_dynamo_in_the_sampler_is_a_recompilation() -> None:
    card = Card(lazy=False)
    ((part, kind, count, seconds),) = sampled_step(card, card.trace, {"top_k": 20})["step_compiles"]
    assert (part, kind, count) == ("sampler", "top_k", 1)
    assert seconds >= 0


def test_short_recipes_of_the_sampler_are_small_compiles() -> None:
    card = Card()
    found = sampled_step(card, partial(card.compile, RECOMPILATION_SECONDS / 2), {"logprobs": 5})
    assert "step_compiles" not in found
    assert found["compile_times"] == [["serving", 1, RECOMPILATION_SECONDS / 2, [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]]]


@pytest.mark.parametrize(
    ("sampling", "kind"),
    [
        ([{}], "greedy"),
        ([{"temperature": 0.8, "top_k": 0, "top_p": 1.0}], "random"),
        ([{}, {"temperature": 0.8}], "greedy and random"),
        ([{"presence_penalty": 0.5}, {"logprobs": 0}], "logprobs, presence_penalty"),
        ([{}, {"temperature": 0.8, "top_k": 20}], "greedy and random, top_k"),
    ],
)
def test_kind_of_a_sampler_compile_names_the_request_parameters(sampling: list[dict[str, Any]], kind: str) -> None:
    card = Card()
    ((_, found, _, _),) = sampled_step(card, card.compile, *sampling)["step_compiles"]
    assert found == kind


def test_sampler_of_warm_up_is_not_counted_as_served() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    sample(runner, [], card.compile)
    verbs.start_serving()
    assert plain(verbs.counters()) == {"met": []}


class Queued:
    """The answer of a step that the card has not finished."""

    def get_output(self) -> None: ...


def test_late_compile_is_counted_for_the_batch_that_caused_it() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.capture("decode", DECODE)
    card.compiled.add((32, 1, 96, False))  # The compilation ends later.
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
    with pytest.raises(ColdShape, match=r"prompt shape \(32, 32, 0\) was not warmed up, but VLLM_FULL_WARMUP"):
        serve_step(verbs, runner, ("prompt", (3, 5, 0)))
    assert "prompt shape (32, 32, 0)" in left[0]
    assert serve_step(verbs, runner, ("prompt", (2, 200, 0)))[0][-2:] == [1, 0]
    assert card.recipes == compiled


@pytest.mark.parametrize(("fail", "graphs"), [(False, True), (True, False)])
def test_cold_shapes_are_run_and_counted_unless_refused(fail: bool, graphs: bool) -> None:
    card = Card()
    runner = plugin(card, graphs=graphs)
    verbs = HpuVerbs(runner, bridge(card), fail_on_cold_shapes=fail)
    verbs.plan([PROMPT], [DECODE])
    assert [row[-1] for row in serve_step(verbs, runner, ("prompt", (3, 5, 0)))] == [1]


@pytest.mark.parametrize("missing", [(), ("graph_compilation",)])
def test_first_run_of_a_new_shape_is_counted_as_compiled(missing: tuple[str, ...]) -> None:
    card = Card()
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card, *missing))
    verbs.plan([PROMPT], [DECODE])
    row = ["decode", [9, 1, 70], [32, 1, 96, False], 1]
    assert serve_step(verbs, runner, ("decode", (9, 1, 70))) == [[*row, 1]]
    assert serve_step(verbs, runner, ("decode", (9, 1, 70))) == [[*row, 0]]


def test_warm_up_is_not_counted_as_served() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    verbs.step(partial(serve, runner, ("prompt", (1, 100, 0))))
    assert plain(verbs.counters()) == {"met": []}


def test_counters_are_reset_when_read() -> None:
    card = Card()
    runner = plugin(card)
    verbs = verbs_on(card, runner)
    assert len(serve_step(verbs, runner, ("prompt", (1, 100, 0)))) == 1
    assert plain(verbs.counters())["met"] == []


@pytest.mark.parametrize(
    ("phase", "bucket", "method"),
    [
        ("decode", DECODE, "_check_config"),
        ("decode", DECODE, "find_decode_bucket"),
        ("prompt", PROMPT, "find_prompt_bucket"),
        ("prompt", PROMPT, "_run_sampling"),
    ],
)
def test_plugin_that_skips_an_observed_method_is_refused(phase: str, bucket: tuple[int, ...], method: str) -> None:
    card = Card()
    runner = plugin(card)
    # This plugin calls a copy of its method, so it does not call the replaced method.
    owner = runner.bucketing_manager if method.startswith("find") else runner
    original, verbs = getattr(owner, method), verbs_on(card, runner)
    object.__setattr__(owner, method, original)
    with pytest.raises(EngineUnsupported, match=f"ran a {phase} bucket without a call of {method}"):
        verbs.warm(phase, bucket)


def test_rank_of_an_earlier_stage_samples_nothing() -> None:
    card = Card()
    runner = plugin(card)
    original, verbs = runner._run_sampling, HpuVerbs(runner, bridge(card), samples=False)
    object.__setattr__(runner, "_run_sampling", original)
    verbs.plan([PROMPT], [DECODE])
    assert verbs.warm("prompt", PROMPT)["out_of_memory"] is None
