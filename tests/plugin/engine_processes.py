"""Runs with vLLM's AsyncLLM. Its engine cores are separate processes, as in production."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from tests.plugin.engine import Facts, Run, collect_rank_facts, run_in_fork, shape_name

SETTINGS = {
    # `fork` saves time. With `spawn`, vLLM would start new interpreters, and each interpreter would import all modules
    # again.
    "VLLM_WORKER_MULTIPROC_METHOD": "fork",
    # The tests send functions to vLLM's workers. vLLM accepts functions only if this setting allows insecure
    # serialization.
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
}


def run_with_engine_processes(work: Callable[[Run], Any], config: RuntimeConfig, folder: Path) -> Facts:
    """Run `work` with engine cores in separate processes, and return the facts that `work` collects."""

    async def with_separate_processes(run: Run) -> Any:
        run.separate_processes = True
        try:
            return await work(run)
        finally:
            await run.engine.close()

    with mock.patch.dict(os.environ, SETTINGS):
        return run_in_fork(with_separate_processes, config, folder)


async def rank_facts_by_core(run: Run) -> list[Facts]:
    """Return the facts of the only rank of each engine core."""
    cores = await run.engine._ranks._cores.call(collect_rank_facts, (), 60)  # type: ignore[arg-type]
    return [rank for (rank,) in cores]


async def answer_on_core(run: Run, number: int, prompt: Sequence[int], tokens: int, core: int) -> list[int]:
    """Return the greedy answer of the engine core `core`. Each request of a run needs a unique `number`."""
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import SamplingParams

    tokens_so_far: list[int] = []
    sampling = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0)
    text = TokensPrompt(prompt_token_ids=list(prompt))
    async for output in run.engine._engine.generate(text, sampling, str(number), data_parallel_rank=core):
        tokens_so_far = list(output.outputs[0].token_ids)
    return tokens_so_far


async def count_batches(run: Run) -> dict[str, int]:
    """Wait until the engine has counted all served batches, and return the counts by executed shape."""
    served = sum((Counter(rank["served"]) for rank in await rank_facts_by_core(run)), Counter[str]())
    counters, taken = run.engine.counters, asyncio.Event()

    def absorb(*counts: Any) -> None:
        ServingHistogram.add_rows(counters, *counts)
        if sum(each.batches for each in counters.tallies.values()) >= served.total():
            taken.set()

    counters.add_rows = absorb  # type: ignore[method-assign]
    watching = asyncio.ensure_future(run.engine.wait_until_lost())
    waiting = asyncio.ensure_future(taken.wait())
    await asyncio.wait({watching, waiting}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    waiting.cancel()
    return {shape_name(key[0].value, key[1]): each.batches for key, each in counters.tallies.items()}
