"""Whole steps with the default plan: recompilations outside of forwards, by the kind of request that waits for them.

Bursts of each kind are sent to one engine, in both modes. The counts are those of our own counters.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.report import StepPart
from tests.plugin.bursts import rendered_config
from tests.plugin.engine import Facts, Run, run_in_fork

BURSTS = (1, 2, 3, 4, 9)
TOKENS = 6
RANDOM, GREEDY = {"temperature": 0.8}, {"temperature": 0.0}
Kind = tuple[dict[str, Any], ...]
"""The sampling parameters of a burst. The requests of the burst have these parameters in turn."""
WARM: dict[str, Kind] = {
    "greedy": (GREEDY,),
    "random": (RANDOM,),
    "top_p": ({**RANDOM, "top_p": 0.9},),
    "top_p and top_k": ({**RANDOM, "top_p": 0.9, "top_k": 20},),
    "n": ({**RANDOM, "n": 2},),
}
# Warm-up of the sampler does not run these kinds yet. Move a kind to WARM when warm-up runs it.
COLD: dict[str, Kind] = {
    "greedy and random": (GREEDY, RANDOM),
    "top_k": ({**RANDOM, "top_k": 20},),
    "greedy and random, top_k, top_p": (GREEDY, {**RANDOM, "top_p": 0.9, "top_k": 20}),
    "logprobs": tuple({**GREEDY, "logprobs": count} for count in (0, 5, 20)),
    "presence_penalty": ({**GREEDY, "presence_penalty": 0.5},),
}


async def send_every_kind(run: Run) -> Facts:
    """Send bursts of each kind. Return the recompilations of the kind by part, and our total."""
    await run.start()
    found: Facts = {}
    for name, kind in {**WARM, **COLD}.items():
        run.engine.counters.step_compiles.clear()
        recompiles = run.engine.counters.recompiles
        for size in BURSTS:
            send_burst(run, [kind[number % len(kind)] for number in range(size)])
        await run.count_batches()
        steps = run.engine.counters.step_compiles.values()
        found[name] = {
            "recompiles": run.engine.counters.recompiles - recompiles,
            "parts": {part.value: run.engine.counters.step_recompiles(part) for part in StepPart},
            "kinds": sorted({step.kind for step in steps if step.part is StepPart.SAMPLER}),
            "seconds": sum(step.seconds for step in steps),
        }
    found["cold"] = sum(run.engine.counters.cold_batches.values())
    return found


def send_burst(run: Run, requests: Sequence[dict[str, Any]]) -> None:
    """Answer requests with these sampling parameters and prompts of mixed lengths in one burst."""
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import SamplingParams

    for number, sampling in enumerate(requests):
        prompt = TokensPrompt(prompt_token_ids=[(7 * at + number) % 500 for at in range(20 + 90 * number)])
        run.llm.add_request(str(number), prompt, SamplingParams(max_tokens=TOKENS, ignore_eos=True, **sampling))
    while run.llm.has_unfinished_requests():
        run.llm.step()


@pytest.fixture(scope="module", params=["TorchCompile", "HpuGraphs"])
def facts(
    request: pytest.FixtureRequest, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Facts:
    config = rendered_config(checkpoints["llama"], {"executionMode": request.param})
    return run_in_fork(send_every_kind, config, tmp_path_factory.mktemp("step"))


@pytest.mark.parametrize("kind", WARM)
def test_warm_kind_of_request_waits_for_no_compile(facts: Facts, kind: str) -> None:
    assert facts[kind]["recompiles"] == 0


@pytest.mark.parametrize("kind", COLD)
def test_cold_kind_of_request_is_counted_and_named(facts: Facts, kind: str) -> None:
    assert facts[kind]["parts"]["sampler"] > 0
    assert any(kind in found for found in facts[kind]["kinds"])
    assert facts[kind]["seconds"] > 0


def test_recompilations_of_the_sampler_leave_forwards_warm(facts: Facts) -> None:
    assert facts["cold"] == 0
    assert sum(facts[kind]["parts"]["forward"] for kind in (*WARM, *COLD)) == 0
