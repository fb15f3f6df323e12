"""A resource with the defaults of a card serves bursts of any lengths, and every forward has a bucket.

What ran is recorded here from the tensors themselves, and counted by the card that is played.
"""

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.children.runtime_config import runtime_config
from gaudi_operator.core.resource import Identity, Inference
from gaudi_runtime.contract.config import RuntimeConfig
from tests.plugin.engine import Facts, Run, in_own_process

LENGTH = 1024
REQUESTS, LARGEST_BURST, ANSWER = 300, 24, 4
ENGINES: dict[str, dict[str, Any]] = {"defaults": {}}
if os.environ.get("PLUGIN_MATRIX"):
    ENGINES["prompts split at a quarter"] = {"maxNumBatchedTokens": LENGTH // 4}
    ENGINES["prefix caching"] = {"prefixCaching": True, "contiguousPagedAttention": False}
    ENGINES["several prompts a batch"] = {"maxNumPrefillSeqs": 4}
    ENGINES["HPU graphs"] = {"executionMode": "HpuGraphs"}


def configured(engine: dict[str, Any], checkpoint: Path) -> RuntimeConfig:
    """What the operator makes of a spec that says little more than its model."""
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
    }


@pytest.fixture(scope="module", params=ENGINES, ids=str)
def facts(
    request: pytest.FixtureRequest, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Facts:
    config = configured(ENGINES[request.param], checkpoints["llama"])
    return in_own_process(serve_bursts, config, tmp_path_factory.mktemp("defaults")) | {"case": request.param}


def test_every_forward_has_a_bucket(facts: Facts) -> None:
    assert facts["answered"] == REQUESTS
    assert (facts["unwarmed"], facts["cold"]) == ([], 0)
    assert (facts["compiled"], facts["recipes"]) == (0, 0), "by Dynamo, and by the bridge of the played card"
    assert facts["forwards"] == facts["counted"] > REQUESTS


def test_only_split_or_cached_prompts_have_context(facts: Facts) -> None:
    splits_or_caches = facts["case"] in ("prefix caching", "prompts split at a quarter")
    assert bool(facts["contexts"]) == splits_or_caches
