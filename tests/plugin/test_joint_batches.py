"""A mixture of experts on two engine cores, which pad each batch to the larger one of both."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.plugin.bursts import rendered_config
from tests.plugin.engine import Facts, Run, call_in_fork
from tests.plugin.engine_processes import answer_on_core, count_batches, rank_facts_by_core, run_with_engine_processes
from tests.plugin.families import logit_gaps, write_family

REQUESTS, LONGEST, COMPARED = 40, 1000, 12


async def serve_on_two_cores(run: Run) -> Facts:
    """Start the engine and send requests of mixed lengths at mixed times to both cores."""
    await run.start()
    before = await rank_facts_by_core(run)
    random = Random(55)  # noqa: S311 - the same load in every run
    prompts = [[random.randrange(500) for _ in range(int(LONGEST ** random.random()))] for _ in range(REQUESTS)]
    busy = asyncio.Semaphore(10)

    async def answer(number: int) -> list[int]:
        async with busy:
            return await answer_on_core(run, number, prompts[number], random.randint(1, 12), random.randint(0, 1))

    answers = await asyncio.gather(*map(answer, range(REQUESTS)))
    counts, after = await count_batches(run), await rank_facts_by_core(run)
    return {
        "before": before,
        "after": after,
        "counted": counts,
        "cold": run.engine.counters.recompiles + sum(run.engine.counters.cold_batches.values()),
        "answers": list(zip(prompts, answers, strict=True))[:COMPARED],
    }


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    return Path(call_in_fork(lambda: str(write_family(folder, "qwen3_moe")), folder))


@pytest.fixture(scope="module")
def facts(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    parallelism = {"data": 2, "expert": True}
    settings = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    config = rendered_config(checkpoint, {"settings": settings}, parallelism=parallelism)
    return run_with_engine_processes(serve_on_two_cores, config, tmp_path_factory.mktemp("joint"))


def test_every_joint_batch_is_warm_on_both_cores(facts: Facts) -> None:
    assert [sorted(set(rank["served"]) - set(rank["warmed"])) for rank in facts["after"]] == [[], []]
    assert facts["cold"] == 0
    for before, after in zip(facts["before"], facts["after"], strict=True):
        assert (after["compiles"], after["recipes"]["graph"]) == (before["compiles"], before["recipes"]["graph"])


def test_cores_pad_batches_of_different_sizes_to_the_larger(facts: Facts) -> None:
    served = [Counter(rank["served"]) for rank in facts["after"]]
    assert facts["counted"] == served[0] + served[1]
    assert len(served[0]) > 2


def test_tokens_of_joint_batches_are_those_of_transformers(facts: Facts, checkpoint: Path, tmp_path: Path) -> None:
    worst, rounding = call_in_fork(partial(logit_gaps, checkpoint, facts["answers"]), tmp_path)
    assert worst <= 2 * rounding
