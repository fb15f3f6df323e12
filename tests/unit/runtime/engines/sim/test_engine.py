"""Properties of the sim engine that other engines do not have: script, memory and determinism."""

import asyncio
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import AdapterConfig, ExecutionMode, KvCacheDtype, RuntimeConfig, WarmupConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import Engine
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.engines.sim.script import read_script
from gaudi_runtime.errors import ConfigError, DeviceOutOfMemory, ModelUnreadable, PlanImpossible
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.engines.sim.completions import complete


def nothing() -> None:
    """Do nothing, as a progress callback."""


def loaded(config: RuntimeConfig) -> SimEngine:
    engine = SimEngine(config)
    engine.load(nothing)
    engine.allocate(100)
    return engine


def serving(script: dict[str, Any] | None = None, **limits: Any) -> Engine:
    engine = start_engine(sim_config(script, **limits), ReportBoard("0" * 64), threading.Event()).engine
    engine.start_serving()
    return engine


def test_unknown_script_key_is_refused_with_the_valid_keys() -> None:
    with pytest.raises(ConfigError, match=r"engine\.simScript\.compileSecs: .* keys are card, model, timeScale"):
        read_script({"compileSecs": 1})


def test_fault_without_a_bucket_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engine\.simScript\.oomAtBucket"):
        read_script({"oomAtBucket": "prompt"})


def test_scripted_load_failure_raises_that_error() -> None:
    with pytest.raises(ModelUnreadable, match=r"engine\.simScript\.failLoad is ModelUnreadable"):
        loaded(sim_config({"failLoad": "ModelUnreadable"}))


def test_cache_larger_than_the_card_raises_out_of_memory() -> None:
    with pytest.raises(DeviceOutOfMemory):
        loaded(sim_config({"deviceMemoryBytes": 2**30, "weightBytes": 0, "blockBytes": 2**24}))


def test_serving_with_the_sim_engine_imports_no_torch() -> None:
    program = (
        "import sys, gaudi_runtime.serve, gaudi_runtime.engines.sim.engine;"
        "sys.exit(bool({'torch', 'transformers', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_script_can_make_every_second_request_recompile() -> None:
    engine = serving({"recompileEvery": 2})
    for _ in range(4):
        await complete(engine, "abc")
    assert engine.counters.recompiles == 2
    assert engine.counters.cold_batches == {(BucketPhase.PROMPT, Bucket(1, 128, 0)): 2}


async def test_cold_shape_fails_with_fail_on_cold_shapes() -> None:
    config = sim_config(warmup=WarmupConfig(enabled=False, fail_on_cold_shapes=True))
    engine = start_engine(config, ReportBoard("0" * 64), threading.Event()).engine
    engine.start_serving()
    with pytest.raises(RuntimeError, match=re.escape("prompt shape (1, 128, 0) was not warmed up")):
        await complete(engine, "abc")


async def test_batch_references_the_blocks_of_all_its_sequences() -> None:
    engine = serving({"tokensPerSecond": 1}, max_model_len=512)
    requests = [asyncio.create_task(complete(engine, "x" * 200, 50)) for _ in range(4)]
    async with asyncio.timeout(20):
        while engine.current_load().running < 4:  # noqa: ASYNC110 - the engine has no event for it
            await asyncio.sleep(0)
    assert engine.current_load().used_blocks == 4 * 2
    for request in requests:
        request.cancel()
    await asyncio.wait(requests)
    assert engine.current_load().used_blocks == 0


def test_sizes_of_card_and_model_come_from_the_catalog() -> None:
    engine = loaded(sim_config({"card": "gaudi2", "model": "meta-llama/Llama-3.1-8B"}))
    assert engine.memory().total == int(94.62 * 2**30)
    assert engine.block_bytes() == 16 * 2**20


def test_script_value_overrides_that_of_the_card() -> None:
    engine = loaded(sim_config({"card": "gaudi2", "blockBytes": 4096}))
    assert engine.block_bytes() == 4096
    assert engine.memory().total == int(94.62 * 2**30)


def test_configured_memory_overrides_that_of_the_card() -> None:
    config = sim_config({"card": "gaudi2"})
    smaller = config.engine.model_copy(update={"device_memory_bytes": 64 * 2**30})
    assert loaded(config.model_copy(update={"engine": smaller})).memory().total == 64 * 2**30


def test_sizes_without_a_card_are_shares_of_device_memory() -> None:
    config = sim_config()
    small = config.engine.model_copy(update={"device_memory_bytes": 512 * 2**20})
    engine = loaded(config.model_copy(update={"engine": small}))
    assert engine.memory().free == 512 * 2**20 - 64 * 2**20 - 100 * engine.block_bytes()
    assert engine.block_bytes() == 64 * 1024


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ({"card": "gaudi9"}, "card 'gaudi9'"),
        (
            {"card": "gaudi2", "model": "unknown/model"},
            "engine.simScript.model: 'unknown/model' is not a known model",
        ),
        ({"model": "meta-llama/Llama-3.1-8B"}, "engine.simScript.model needs engine.simScript.card. Set the card"),
    ],
)
def test_unknown_card_or_model_is_reported(script: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        SimEngine(sim_config(script))


def test_weights_that_do_not_fit_the_card_are_impossible_plan() -> None:
    with pytest.raises(PlanImpossible, match="the weights do not fit the simulated card"):
        loaded(sim_config({"weightBytes": 2**50}))


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"dtype": "bfloat16"}},
        {"model": {"kv_cache_dtype": KvCacheDtype.FP8_INC}},
        {"model": {"adapters": (AdapterConfig(name="sql", path="/adapters/0"),)}},
        {"parallelism": {"tensor": 2}},
        {"engine": {"execution_mode": ExecutionMode.LAZY}},
        {"engine": {"sim_script": {"card": "gaudi2"}}},
    ],
    ids=str,
)
def test_each_input_of_recipes_changes_the_recipe_key(change: dict[str, dict[str, Any]]) -> None:
    config = sim_config()
    parts = {name: getattr(config, name).model_copy(update=update) for name, update in change.items()}
    assert SimEngine(config.model_copy(update=parts)).recipe_key() != SimEngine(config).recipe_key()


def test_plan_does_not_change_the_recipe_key() -> None:
    assert SimEngine(sim_config(max_num_seqs=8)).recipe_key() == SimEngine(sim_config()).recipe_key()
