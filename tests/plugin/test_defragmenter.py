"""The plugin's defragmenter, which moves blocks during serving. It captures and compiles nothing new."""

from collections import Counter
from pathlib import Path

import pytest

from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import ExecutionMode
from tests.plugin.cases import COMPILE, GRAPHS, Case, case_config
from tests.plugin.engine import Facts, Run, run_in_fork

LENGTHS = (120, 110, 90, 128)  # The prompts fit into one step, so that none is split.


async def serve_until_blocks_move(run: Run) -> Facts:
    from habana_frameworks.torch.hpu import graphs
    from torch._dynamo.utils import counters

    await run.start()
    runner, moved = run.llm.model_executor.driver_worker.worker.model_runner, []
    used = runner.defragmenter
    swap = used._swap
    used._swap = lambda pairs, size: (moved.append(len(pairs)), swap(pairs, size))[1]
    captured, compiled = Counter(graphs.CAPTURES), counters["stats"]["unique_graphs"]
    for tokens in (2, 20, 3, 15):
        run.answer([[(7 * at) % 500 for at in range(length)] for length in LENGTHS], tokens)
    return {
        "moved": len(moved),
        "captures": dict(graphs.CAPTURES - captured),
        "compiles": counters["stats"]["unique_graphs"] - compiled,
        "cold": bool((await run.count_batches()) and run.engine.counters.cold_batches),
    }


@pytest.mark.parametrize("mode", [GRAPHS, COMPILE])
def test_moving_blocks_causes_no_capture_and_no_compile(
    checkpoints: dict[str, Path], tmp_path: Path, mode: ExecutionMode
) -> None:
    config = case_config(Case(Strategy.LINEAR, False, True, "llama", mode), checkpoints["llama"])
    settings = {**config.engine.settings, "VLLM_DEFRAG_WITH_GRAPHS": "true", "VLLM_DEFRAG_THRESHOLD": "1"}
    config = config.model_copy(update={"engine": config.engine.model_copy(update={"settings": settings})})
    facts = run_in_fork(serve_until_blocks_move, config, tmp_path)
    assert facts["moved"] > 0
    assert (facts["captures"], facts["compiles"], facts["cold"]) == ({}, 0, False)
