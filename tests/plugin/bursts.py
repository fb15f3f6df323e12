"""Bursts of requests with mixed lengths to a server with the default plan for cards.

The test records the executed shapes from the tensors. The simulated card counts the executed shapes too.
"""

from pathlib import Path
from random import Random
from typing import Any

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.inference import Inference, InferenceIdentity
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from tests.plugin.engine import Facts, Run
from tests.support.builders import merged

LENGTH = 1024
REQUESTS, LARGEST_BURST, ANSWER = 300, 24, 4
BLOCK_SIZE = 128


def rendered_config(checkpoint: Path, engine: dict[str, Any], **fields: Any) -> RuntimeConfig:
    """Return the configuration that the operator renders for a small spec with additional `fields`."""
    spec = GaudiInferenceSpec.model_validate(
        {
            "model": {
                "source": {"persistentVolumeClaim": {"claimName": "models"}},
                "dtype": "bfloat16",
                "maxModelLen": LENGTH,
            },
            "accelerator": {"generation": "gaudi3"},
            # The memory of the emulated card is enough for 8 sequences.
            "engine": merged({"maxNumSeqs": 8, "settings": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}}, engine),
            **fields,
        }
    )
    config = runtime_config(
        Inference(InferenceIdentity("tiny", "models", "uid", 1, deleting=False, restarted_at=None), spec)
    )
    model = config.model.model_copy(update={"path": str(checkpoint)})
    return config.model_copy(update={"model": model, "recipe_cache_dir": None})


def make_bursts(random: Random, requests: int = REQUESTS) -> list[list[list[int]]]:
    """Return bursts of prompts with mixed lengths. In every second burst, all prompts share a prefix."""
    found: list[list[list[int]]] = []
    left = requests
    while left:
        count = min(left, random.randint(1, LARGEST_BURST))
        start = [random.randrange(500) for _ in range(random.randint(0, 400))] if len(found) % 2 else []
        lengths = [random.choice((random.randint(1, 60), random.randint(1, LENGTH - ANSWER - 1))) for _ in range(count)]
        prompts = [(start + [random.randrange(500) for _ in range(length)])[: max(1, length)] for length in lengths]
        found.append(prompts)
        left -= count
    return found


async def serve_bursts(run: Run) -> Facts:
    """Start the engine and send all bursts. Return the warm shapes, the executed shapes and the padding."""
    report = await run.start()
    before = run.ranks()[0]
    answered = 0
    for prompts in make_bursts(Random(35)):  # noqa: S311 - the same load in every run
        answered += len(run.answer(prompts, ANSWER))
    count_batches = await run.count_batches()
    after = run.ranks()[0]
    return {
        "answered": answered,
        "ready": {phase: report.model_dump(mode="json")[phase] for phase in ("prompt", "decode")},
        "unwarmed": sorted(set(after["served"]) - set(after["warmed"])),
        "forwards": sum(after["served"].values()),
        "counted": sum(count_batches.values()),
        "contexts": sorted(each for each in count_batches if each.startswith("prompt") and not each.endswith("x0")),
        "cold": run.engine.counters.recompiles + sum(run.engine.counters.cold_batches.values()),
        "compiled": after["compiles"] - before["compiles"],
        "recipes": after["recipes"]["graph"] - before["recipes"]["graph"],
        "seconds": report.elapsed_seconds,
        "padding": {phase.value: padding(run.engine.counters, phase) for phase in BucketPhase},
    }


def padding(served: ServingHistogram, phase: BucketPhase) -> float:
    """Return the compute of the executed shapes divided by the compute of the requested shapes."""
    cost = typical_cost(BLOCK_SIZE)
    ran = sum(each.batches * cost(met, bucket) for (met, bucket), each in served.tallies.items() if met is phase)
    return ran / sum(batches * cost(phase, shape) for shape, batches in served.traffic().shapes_of(phase).items())
