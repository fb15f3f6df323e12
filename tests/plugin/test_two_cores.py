"""Data parallelism on the plugin's own code: two engine cores of vLLM, each with a card.

The card of core 1 has less memory and becomes full during the capture of one graph. Every report of the runtime must
cover both cores.
"""

import asyncio
import os
import re
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.config import ParallelismConfig, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, reaches_percent
from gaudi_runtime.engines.vllm.watch import Pace
from gaudi_runtime.planning.planner import make_plan
from tests.plugin.cases import DEFAULT, case_config
from tests.plugin.engine import Facts, Run, call_in_fork
from tests.plugin.engine_processes import answer_on_core, count_batches, rank_facts_by_core, run_with_engine_processes
from tests.plugin.serving import PROMPTS, largest_logit_gap, planned_shapes

TAKEN = 4 << 20
"""The number of bytes that the card of core 1 lacks."""
TOKENS = 12


def two_cores(checkpoint: Path) -> RuntimeConfig:
    config = case_config(DEFAULT, checkpoint, pieces=False)
    # With this utilization, the KV cache of the smaller card has no room for all sequences at their full length.
    engine = config.engine.model_copy(update={"device_memory_utilization": 0.038})
    return config.model_copy(update={"parallelism": ParallelismConfig(data=2), "engine": engine})


def reduce_memory() -> None:
    """Reduce the memory of core 1's card. Call this function in the process of core 1."""
    from gaudi_runtime.engines.vllm.workers.hpu_worker import DrivenHpuWorker

    init_device = DrivenHpuWorker.init_device

    def init_smaller_device(self: Any) -> None:
        from habana_frameworks.torch.memory import MEMORY

        MEMORY.total -= TAKEN * self.vllm_config.parallel_config.data_parallel_index
        init_device(self)

    DrivenHpuWorker.init_device = init_smaller_device  # type: ignore[method-assign]


async def start_and_serve(run: Run) -> Facts:
    reduce_memory()
    run.full_in, run.full_at = 1, ("decode 1x1x8", 2)
    report = await run.start()
    plan = make_plan(run.config.bucketing, run.config.limits, report.memory.kv_blocks if report.memory else 0)
    before = await rank_facts_by_core(run)
    # The prompts of each core have at most 512 tokens in total. One step has room for 512 tokens, so no prompt is
    # split.
    requests = [
        answer_on_core(run, number, each, TOKENS, core=int(number in (1, 4))) for number, each in enumerate(PROMPTS)
    ]
    answers = await asyncio.gather(*requests)
    after = await rank_facts_by_core(run)
    counts = await count_batches(run)
    return {
        "report": report.model_dump(mode="json"),
        "plan": {each.value: [list(bucket) for bucket in plan.buckets_of(each)] for each in BucketPhase},
        "before": before,
        "after": after,
        "answers": answers,
        "counted": counts,
        "blocks": run.engine.current_load().total_blocks,
        "notes": run.engine.notes(),
        "stopped": await until_lost(run, after[1]["parent"], signal.SIGSTOP, hang=2),
        # Use a timeout of 60 s. On a busy machine, vLLM notices the death of a process only after some seconds. With a
        # short timeout, the dead process would be reported as hung.
        "killed": await until_lost(run, after[1]["parent"], signal.SIGKILL, hang=60),
    }


async def until_lost(run: Run, pid: int, number: int, hang: float) -> str:
    run.engine._pace = Pace(poll_interval=0.1, check_interval=0.1, hang_timeout=hang)
    os.kill(pid, number)
    return str(await run.engine.wait_until_lost())


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return run_with_engine_processes(
        start_and_serve, two_cores(checkpoints["llama"]), tmp_path_factory.mktemp("two-cores")
    )


def test_every_core_has_and_warms_the_printed_buckets(facts: Facts) -> None:
    planned = {phase: sorted(buckets) for phase, buckets in facts["plan"].items()}
    assert [{phase: sorted(each) for phase, each in rank["held"].items()} for rank in facts["before"]] == [
        planned,
        planned,
    ]
    assert [set(rank["warmed"]) for rank in facts["before"]] == [set(planned_shapes(facts))] * 2


def test_report_has_the_smaller_kv_cache_of_both_cores(facts: Facts) -> None:
    memory, (first, second) = facts["report"]["memory"], facts["before"]
    assert first["blocks"] > second["blocks"]
    assert memory["kv_blocks"] == second["blocks"]
    assert facts["blocks"] == 2 * second["blocks"]
    assert any(each.startswith("the KV caches of the engine cores have ") for each in facts["notes"])


def test_decode_graph_missing_on_one_core_keeps_the_gate_closed(facts: Facts) -> None:
    decode, skipped = facts["report"]["decode"], facts["report"]["skipped"]
    assert not reaches_percent(decode["captured"], decode["planned"], 100)
    assert decode["captured"] == decode["planned"] - len(skipped)
    assert skipped[0]["bucket"] == [1, 1, 8]
    assert "ran out of memory" in skipped[0]["reason"]


def test_counters_equal_the_forwards_of_both_cores(facts: Facts) -> None:
    served = [Counter(rank["served"]) for rank in facts["after"]]
    assert all(served)
    assert facts["counted"] == served[0] + served[1]


def test_serving_causes_no_compile_on_any_core(facts: Facts) -> None:
    assert [rank["compiles"] for rank in facts["after"]] == [rank["compiles"] for rank in facts["before"]]


def test_greedy_tokens_equal_those_of_transformers(facts: Facts, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints["llama"], answers), tmp_path) < 0.15


def test_hanging_core_is_reported_as_a_hanging_vllm(facts: Facts) -> None:
    assert facts["stopped"].startswith("vLLM hangs: ")


def test_dead_core_is_named_in_the_error(facts: Facts) -> None:
    # The message may name both cores, because vLLM kills the remaining core after a while.
    assert re.match(
        "A process of vLLM died while it served: .*EngineCore_DP1 (was|were) ended by SIGKILL", facts["killed"]
    )
