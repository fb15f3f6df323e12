"""Bursts of requests of any lengths to a server that has the defaults of a card, and what is recorded meanwhile.

What ran is recorded from the tensors themselves, and counted by the card that is played.
"""

from pathlib import Path
from random import Random
from typing import Any

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.core.resource import Identity, Inference
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.optimal.cost import typical_cost
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from tests.plugin.engine import Facts, Run

LENGTH = 1024
REQUESTS, LARGEST_BURST, ANSWER = 300, 24, 4
BLOCK_SIZE = 128


def configured(checkpoint: Path, engine: dict[str, Any], **fields: Any) -> RuntimeConfig:
    """What the operator makes of a spec that says little more than its model; `fields` are others of the spec."""
    spec = GaudiInferenceSpec.model_validate(
        {
            "model": {
                "source": {"persistentVolumeClaim": {"claimName": "models"}},
                "dtype": "bfloat16",
                "maxModelLen": LENGTH,
            },
            "accelerator": {"generation": "gaudi3"},
            # So many sequences as the played card has room for.
            "engine": {"maxNumSeqs": 8, "settings": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}, **engine},
            **fields,
        }
    )
    config = runtime_config(Inference(Identity("tiny", "models", "uid", 1, deleting=False, restarted_at=None), spec))
    model = config.model.model_copy(update={"path": str(checkpoint)})
    return config.model_copy(update={"model": model, "recipe_cache_dir": None})


def bursts(random: Random) -> list[list[list[int]]]:
    """Prompts of mixed lengths that arrive together; every second burst begins all of them alike."""
    found: list[list[list[int]]] = []
    left = REQUESTS
    while left:
        count = min(left, random.randint(1, LARGEST_BURST))
        start = [random.randrange(500) for _ in range(random.randint(0, 400))] if len(found) % 2 else []
        lengths = [random.choice((random.randint(1, 60), random.randint(1, LENGTH - ANSWER - 1))) for _ in range(count)]
        prompts = [(start + [random.randrange(500) for _ in range(length)])[: max(1, length)] for length in lengths]
        found.append(prompts)
        left -= count
    return found


async def serve_bursts(run: Run) -> Facts:
    """Start, answer all bursts, and return what was warmed up, what ran and what was padded."""
    report = await run.start()
    before = run.ranks()[0]
    answered = 0
    for prompts in bursts(Random(35)):  # noqa: S311 - a load that is the same in every run
        answered += len(run.answer(prompts, ANSWER))
    counted = await run.counted()
    after = run.ranks()[0]
    return {
        "answered": answered,
        "ready": {phase: report.model_dump(mode="json")[phase] for phase in ("prompt", "decode")},
        "unwarmed": sorted(set(after["served"]) - set(after["warmed"])),
        "forwards": sum(after["served"].values()),
        "counted": sum(counted.values()),
        "contexts": sorted(each for each in counted if each.startswith("prompt") and not each.endswith("x0")),
        "cold": run.engine.counters.recompiles + sum(run.engine.counters.cold.values()),
        "compiled": after["compiles"] - before["compiles"],
        "recipes": after["recipes"]["model"] - before["recipes"]["model"],
        "seconds": report.elapsed_seconds,
        "padding": {phase.value: padding(run.engine.counters, phase) for phase in BucketPhase},
    }


def padding(served: ServingHistogram, phase: BucketPhase) -> float:
    """Return the compute of the batches as they ran over that of the batches as they came."""
    cost = typical_cost(BLOCK_SIZE)
    ran = sum(each.batches * cost(met, bucket) for (met, bucket), each in served.tallies.items() if met is phase)
    return ran / sum(batches * cost(phase, shape) for shape, batches in served.traffic().shapes_of(phase).items())
