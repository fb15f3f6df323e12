"""Whole steps with the default plan: bursts of each kind of request, and the compiles that the requests wait for.

Half of the requests of a burst arrive while the first ones decode, and their answers have different lengths. Each run
sends all kinds to one engine. The counts of recompilations are those of our own counters.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.compiles import StepPart
from tests.plugin.bursts import rendered_config
from tests.plugin.cases import in_matrix
from tests.plugin.engine import Facts, Run, run_in_fork

MODES = in_matrix("TorchCompile", "HpuGraphs")
BURSTS = tuple(range(1, 10)) if len(MODES) > 1 else (1, 4, 9)
"""The numbers of requests in a burst: all with `make plugin`, and a few with `make test`."""
SHORTEST_ANSWER = 3
LONGER_BY = {"presence_penalty": 60}
"""Additional tokens of the answers of a kind, so that its lists of tokens change their padded length."""
RANDOM, GREEDY = {"temperature": 0.8}, {"temperature": 0.0}
SCHEMA = {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 40, "maxItems": 40}
Kind = tuple[dict[str, Any], ...]
"""The sampling parameters of a burst. The requests of the burst have these parameters in turn."""
FILTERED = {**RANDOM, "top_p": 0.9, "top_k": 20}
LOGPROBS = tuple({**GREEDY, "logprobs": count} for count in (0, 5, 20))
KINDS: dict[str, Kind] = {
    "greedy": (GREEDY,),
    "random": (RANDOM,),
    "top_p": ({**RANDOM, "top_p": 0.9},),
    "top_p and top_k": (FILTERED,),
    "n": ({**RANDOM, "n": 2},),
    "greedy and random": (GREEDY, RANDOM),
    "top_k": ({**RANDOM, "top_k": 20},),
    "greedy and random, top_k, top_p": (GREEDY, FILTERED),
    "logprobs": LOGPROBS,
    "structured_outputs": ({**GREEDY, "schema": SCHEMA}, RANDOM),
    "seed": ({**RANDOM, "seed": 7}, GREEDY, {**RANDOM, "seed": 8}),
    "presence_penalty": ({**GREEDY, "presence_penalty": 0.5}, {**RANDOM, "repetition_penalty": 1.2}),
    "all": (GREEDY, *LOGPROBS, FILTERED, {**RANDOM, "n": 2}, {**GREEDY, "schema": SCHEMA}, {**RANDOM, "seed": 7}),
}
NEED_FORMS = ("greedy and random", "top_k", "greedy and random, top_k, top_p", "logprobs", "seed", "presence_penalty")
"""Kinds that the plugin's own warm-up of the sampler does not run."""
JOINS = {"cat", "copy_", "scatter_", "__getitem__", "__setitem__"}
"""Operations that join tokens, or the logits of a step with a grammar, and copy tokens into the next step."""


async def send_every_kind(run: Run) -> Facts:
    """Start the engine and send bursts of each kind. Return the compiles of each kind."""
    report = await run.start()
    found: Facts = {"kinds": {}, "plain": measure_plain_requests(run), "seconds": report.elapsed_seconds}
    for name, kind in KINDS.items():
        found["kinds"][name] = await measure_kind(run, kind, BURSTS, LONGER_BY.get(name, 0))
    seeded = {**RANDOM, "seed": 7}
    alone, (_, together, _) = run.answer([[1, 2, 3]], 8, **seeded), run.answer([[5], [1, 2, 3], [9] * 90], 8, **seeded)
    found["seeded"] = [*alone, together]
    found["cold"] = sum(run.engine.counters.cold_batches.values())
    return found


async def send_without_forms(run: Run) -> Facts:
    """Send the kinds that need the forms of the sampler to an engine that warms up the plugin's own forms only."""
    from gaudi_runtime.engines.vllm.workers import hpu_worker
    from gaudi_runtime.engines.vllm.workers.capabilities import PluginName

    hpu_worker.SAMPLED_BATCH = (PluginName("missing", loss="not warmed up"),)
    await run.start()
    plain = measure_plain_requests(run)
    found = {name: await measure_kind(run, KINDS[name], (2,)) for name in NEED_FORMS}
    return {"kinds": found, "plain": plain, "cold": sum(run.engine.counters.cold_batches.values())}


def measure_plain_requests(run: Run) -> list[dict[str, int]]:
    """Send greedy and random requests. Return the launches of recipes by source and number of operations."""
    from habana_frameworks.torch.hpu import metrics

    launches = []
    for kind in (GREEDY, RANDOM):
        metrics.LAUNCHES.clear()
        send_burst(run, [kind] * 3)
        launches.append({f"{source} of {nodes}": count for (source, nodes), count in metrics.LAUNCHES.items()})
    return launches


async def measure_kind(run: Run, kind: Kind, sizes: Iterable[int], longer_by: int = 0) -> Facts:
    """Send bursts of these sizes. Return its Dynamo graphs, recipes, operations and recompilations."""
    from habana_frameworks.torch.hpu import metrics

    counters = run.engine.counters
    counters.step_compiles.clear()
    recompiles, known = counters.recompiles, len(metrics.KEPT)
    dynamo_graphs = run.ranks()[0]["compiles"]
    lengths = [send_burst(run, [kind[number % len(kind)] for number in range(size)], longer_by) for size in sizes]
    await run.count_batches()
    recipes = list(metrics.KEPT.items())[known:]
    steps = counters.step_compiles.values()
    return {
        "dynamo graphs": run.ranks()[0]["compiles"] - dynamo_graphs,
        "graphs": sum(source == metrics.GRAPH for _, source in recipes),
        "operations": sorted({name for recipe, source in recipes if source == metrics.EAGER for name in names(recipe)}),
        "recipes": [repr(recipe)[:400] for recipe, _ in recipes],
        "recompiles": counters.recompiles - recompiles,
        "parts": {part.value: counters.step_recompiles(part) for part in StepPart},
        "kinds": sorted({step.kind for step in steps if step.part is StepPart.SAMPLER}),
        "seconds": sum(step.seconds for step in steps),
        "logprobs": sorted({length for burst in lengths for length in burst}),
    }


def names(recipe: Any) -> set[Hashable]:
    """Return the names of the operations in a recipe: one operation, or in lazy mode a sequence of them."""
    return {recipe[0]} if isinstance(recipe[0], str) else {operation[0] for operation in recipe}


def send_burst(run: Run, requests: Sequence[dict[str, Any]], longer_by: int = 0) -> set[tuple[int, int]]:
    """Answer requests with these sampling parameters, two of which arrive before each step.

    Return the asked and the received numbers of logprobs of the requests that asked for logprobs.
    """
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams

    waiting = list(enumerate(requests))
    received: set[tuple[int, int]] = set()
    while waiting or run.llm.has_unfinished_requests():
        for number, given in waiting[:2]:
            sampling = {name: value for name, value in given.items() if name != "schema"}
            if "schema" in given:
                sampling["structured_outputs"] = StructuredOutputsParams(json=given["schema"])
            length = SHORTEST_ANSWER + 2 * (number % 4) + longer_by
            prompt = TokensPrompt(prompt_token_ids=[(7 * at + number) % 500 for at in range(20 + 90 * (number % 9))])
            run.llm.add_request(str(number), prompt, SamplingParams(max_tokens=length, ignore_eos=True, **sampling))
        del waiting[:2]
        for answer in run.llm.step():
            asked = requests[int(answer.request_id)].get("logprobs")
            if answer.finished and asked is not None:
                received |= {(asked, len(choices)) for choices in answer.outputs[0].logprobs}
    return received


Runs = Callable[[str, Any], Facts]
"""The facts of an engine by its mode and the function that sends the requests. Each engine is started once."""


@pytest.fixture(scope="module")
def runs(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    @cache
    def run(mode: str, work: Any) -> Facts:
        config = rendered_config(checkpoints["llama"], {"executionMode": mode})
        return run_in_fork(work, config, tmp_path_factory.mktemp("step"))

    return run


@pytest.fixture(params=MODES)
def facts(request: pytest.FixtureRequest, runs: Runs) -> Facts:
    return runs(request.param, send_every_kind)


@pytest.fixture(params=MODES)
def without_forms(request: pytest.FixtureRequest, runs: Runs) -> Facts:
    return runs(request.param, send_without_forms)


@pytest.mark.parametrize("kind", KINDS)
def test_requests_wait_for_no_graph(facts: Facts, kind: str) -> None:
    found = facts["kinds"][kind]
    assert (found["dynamo graphs"], found["graphs"], found["recompiles"]) == (0, 0, 0), found["recipes"]


@pytest.mark.parametrize("kind", KINDS)
def test_only_joins_of_rows_are_compiled_while_serving(facts: Facts, kind: str) -> None:
    found = facts["kinds"][kind]
    assert set(found["operations"]) <= JOINS, found["recipes"]


def test_answers_have_the_logprobs_that_each_request_asked_for(facts: Facts) -> None:
    # The sampled token is added if it is not among the most likely ones; greedy tokens always are.
    assert facts["kinds"]["logprobs"]["logprobs"] == [[0, 1], [5, 5], [20, 20]]


@pytest.mark.parametrize("kind", NEED_FORMS)
def test_cold_form_of_the_sampler_is_counted_and_named(without_forms: Facts, kind: str) -> None:
    found = without_forms["kinds"][kind]
    assert found["parts"]["sampler"] > 0
    assert any(kind in name for name in found["kinds"])
    assert found["seconds"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_plain_requests_run_the_same_recipes_as_without_forms(runs: Runs, mode: str) -> None:
    assert runs(mode, send_every_kind)["plain"] == runs(mode, send_without_forms)["plain"]


def test_answer_to_a_seeded_request_depends_on_no_other_request(facts: Facts) -> None:
    alone, together = facts["seeded"]
    assert alone == together


def test_every_forward_is_warm(facts: Facts) -> None:
    assert facts["cold"] == 0


def test_recompilations_of_the_sampler_leave_forwards_warm(without_forms: Facts) -> None:
    assert without_forms["cold"] == 0
    assert sum(kind["parts"]["forward"] for kind in without_forms["kinds"].values()) == 0
