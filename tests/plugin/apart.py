"""Runs with vLLM's AsyncLLM as in production: its engine cores are processes of their own."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from tests.plugin.engine import Facts, Run, in_own_process, of_this_rank, shape

SETTINGS = {
    # vLLM would start each interpreter anew, and import everything again.
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",
    # Functions of ours are what vLLM is asked to call.
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
}


def with_processes(work: Callable[[Run], Any], config: RuntimeConfig, folder: Path) -> Facts:
    """What the coroutine `work` finds out about a run whose engine cores are processes."""

    async def apart(run: Run) -> Any:
        run.apart = True
        try:
            return await work(run)
        finally:
            await run.engine.close()

    with mock.patch.dict(os.environ, SETTINGS):
        return in_own_process(apart, config, folder)


async def ranks(run: Run) -> list[Facts]:
    """What the one rank of each engine core has seen and holds by now."""
    cores = await run.engine._ranks._cores.call(of_this_rank, (), 60)  # type: ignore[arg-type]
    return [rank for (rank,) in cores]


async def answer(run: Run, number: int, prompt: Sequence[int], tokens: int, core: int) -> list[int]:
    """The greedy answer of this engine core; each request of a run has another `number`."""
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import SamplingParams

    answered: list[int] = []
    sampling = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0)
    text = TokensPrompt(prompt_token_ids=list(prompt))
    async for output in run.engine._engine.generate(text, sampling, str(number), data_parallel_rank=core):
        answered = list(output.outputs[0].token_ids)
    return answered


async def counted(run: Run) -> dict[str, int]:
    """Batches by the shape that they ran as, once the engine's own watch has taken over all that was served."""
    served = sum((Counter(rank["served"]) for rank in await ranks(run)), Counter[str]())
    counters, taken = run.engine.counters, asyncio.Event()

    def absorb(*counts: Any) -> None:
        ServingHistogram.absorb(counters, *counts)
        if sum(each.batches for each in counters.tallies.values()) >= served.total():
            taken.set()

    counters.absorb = absorb  # type: ignore[method-assign]
    watching = asyncio.ensure_future(run.engine.until_lost())
    waiting = asyncio.ensure_future(taken.wait())
    await asyncio.wait({watching, waiting}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    waiting.cancel()
    return {shape(key[0].value, key[1]): each.batches for key, each in counters.tallies.items()}
