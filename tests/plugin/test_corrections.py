"""Steps for which the plugin gives wrong answers.

Each answer is wrong with the plugin's own methods ("off") and right with our corrections ("on").
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from tests.plugin.cases import COMPILE, GRAPHS, Case, case_config
from tests.plugin.engine import SAMPLED, Facts, Run, call_in_fork, run_in_fork
from tests.plugin.serving import largest_logit_gap

CASES = tuple(Case(Strategy.LINEAR, True, False, "llama", mode) for mode in (COMPILE, GRAPHS))
SHARED = [(7 * at) % 500 for at in range(256)]
PREEMPTED = [
    [*SHARED, *((7 * at + 11 * row + length) % 500 for at in range(length))] for row, length in enumerate((20, 40, 30))
]
"""Prompts with a common prefix of two blocks."""
PENALIZED = [(3 * at) % 500 for at in range(40)]
PRESENCE = 2.0
TOKENS, FREE_BLOCKS = 200, 7
SCHEMA = {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 30, "maxItems": 30}


async def serve_without_and_with_corrections(run: Run) -> Facts:
    from vllm_gaudi.v1.worker.hpu_input_batch import InputBatch

    plugin_add = InputBatch.add_request
    await run.start()
    (expected,) = run.answer([PENALIZED], 40)
    with few_blocks(run):
        facts = {"expected": expected, "on": serve(run)}
        # Restore the methods of the plugin.
        InputBatch.add_request = plugin_add
        del runner_of(run)._prepare_sampling
        return {**facts, "off": serve(run)}


def runner_of(run: Run) -> Any:
    return run.llm.engine_core.engine_core.model_executor.driver_worker.worker.model_runner


@contextmanager
def few_blocks(run: Run) -> Iterator[None]:
    """Allocate all KV blocks but FREE_BLOCKS, so that vLLM preempts requests."""
    pool = run.llm.engine_core.engine_core.scheduler.kv_cache_manager.block_pool
    run.llm.reset_prefix_cache()
    blocks = pool.get_new_blocks(pool.get_num_free_blocks() - FREE_BLOCKS)
    yield
    pool.free_blocks(blocks)


def serve(run: Run) -> Facts:
    SAMPLED.clear()
    run.llm.reset_prefix_cache()
    preempted, rows = run.answer(PREEMPTED, TOKENS), sorted(SAMPLED)
    penalized = run.answer([PENALIZED], 64, presence_penalty=PRESENCE)
    return {
        "preempted": preempted,
        "rows": rows,
        "penalized": penalized[0],
        "greedy": answer_next_to_guided_requests(run),
    }


def answer_next_to_guided_requests(run: Run) -> list[int]:
    """Return the tokens of a greedy request that decodes while random requests with a grammar arrive."""
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams

    greedy = SamplingParams(max_tokens=40, ignore_eos=True, temperature=0.0)
    run.llm.add_request("greedy", TokensPrompt(prompt_token_ids=PENALIZED), greedy)
    tokens: list[int] = []
    for step in range(1000):
        if step in (5, 10, 15):
            grammar = StructuredOutputsParams(json=json.dumps(SCHEMA))
            guided = SamplingParams(max_tokens=4, temperature=2.0, structured_outputs=grammar)
            run.llm.add_request(str(step), TokensPrompt(prompt_token_ids=PENALIZED[:9]), guided)
        for output in run.llm.step():
            if output.request_id == "greedy":
                tokens = list(output.outputs[0].token_ids)
        if not run.llm.has_unfinished_requests():
            return tokens
    raise AssertionError("the requests did not end")


def penalty_gap(checkpoint: Path, tokens: Sequence[int]) -> float:
    """Return the largest difference between the best penalized logit and that of the chosen token."""
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)
    with torch.no_grad():
        logits = model(torch.tensor([[*PENALIZED, *tokens]])).logits[0, len(PENALIZED) - 1 : -1].float()
    for at, row in enumerate(logits):
        row[list(set(tokens[:at]))] -= PRESENCE
    chosen = logits[torch.arange(len(tokens)), torch.tensor(tokens)]
    return float((logits.max(dim=-1).values - chosen).max())


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(case: Case, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = case_config(case, checkpoints[case.family])
    return run_in_fork(serve_without_and_with_corrections, config, tmp_path_factory.mktemp("corrections"))


@pytest.mark.parametrize(("corrections", "wrong"), [("off", True), ("on", False)])
def test_preempted_requests_get_the_tokens_of_their_own_rows(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path, corrections: str, wrong: bool
) -> None:
    answers = list(zip(PREEMPTED, facts[corrections]["preempted"], strict=True))
    gap = call_in_fork(partial(largest_logit_gap, checkpoints[case.family], answers), tmp_path)
    assert gap > 1 if wrong else gap < 0.15


def test_sampler_runs_only_at_warmed_sizes_after_preemption(facts: Facts) -> None:
    assert set(facts["on"]["rows"]) <= {1, 2, 4} < set(facts["off"]["rows"])


@pytest.mark.parametrize(("corrections", "wrong"), [("off", True), ("on", False)])
def test_penalties_count_all_tokens_of_the_answer(
    facts: Facts, case: Case, checkpoints: dict[str, Path], tmp_path: Path, corrections: str, wrong: bool
) -> None:
    work = partial(penalty_gap, checkpoints[case.family], facts[corrections]["penalized"])
    gap = call_in_fork(work, tmp_path)
    assert gap > 1 if wrong else gap < 0.15


@pytest.mark.parametrize(("corrections", "wrong"), [("off", True), ("on", False)])
def test_greedy_request_keeps_its_temperature_next_to_guided_ones(facts: Facts, corrections: str, wrong: bool) -> None:
    assert (facts[corrections]["greedy"] != facts["expected"]) is wrong
