"""What only the sim engine does: its script, its memory, its determinism."""

import subprocess
import sys
import threading

import pytest

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.engines.protocol import Engine, SamplingParams
from gaudi_runtime.engines.select import select_engine
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.engines.sim.script import read_script
from gaudi_runtime.errors import ConfigError, DeviceOutOfMemory, ModelUnreadable
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.startup import start_engine
from tests.unit.runtime.configs import sim_config


def nothing() -> None:
    """A progress callback."""


def loaded(config: RuntimeConfig) -> SimEngine:
    engine = SimEngine(config)
    engine.load(nothing)
    engine.allocate(100)
    return engine


def serving() -> Engine:
    engine = start_engine(sim_config(), ReportBoard("0" * 64), threading.Event())
    engine.start_serving()
    return engine


async def text(engine: Engine, prompt: str, sampling: SamplingParams) -> str:
    return "".join([chunk.text async for chunk in engine.generate(engine.tokenizer.encode(prompt), sampling)])


async def test_the_same_prompt_gives_the_same_answer() -> None:
    engine = serving()
    sampling = SamplingParams(max_tokens=20)
    assert await text(engine, "abc", sampling) == await text(engine, "abc", sampling) == "abc"


async def test_ignoring_the_end_goes_on_to_the_last_token() -> None:
    engine = serving()
    assert await text(engine, "abc", SamplingParams(max_tokens=7, ignore_eos=True)) == "abcabca"


def test_a_wrong_key_of_the_script_is_named_with_the_right_ones() -> None:
    with pytest.raises(ConfigError, match=r"engine\.simScript\.compileSecs: .* keys are card, model, timeScale"):
        read_script({"compileSecs": 1})


def test_a_fault_needs_a_phase_and_a_number() -> None:
    with pytest.raises(ConfigError, match=r"engine\.simScript\.oomAtBucket"):
        read_script({"oomAtBucket": "prompt"})


def test_a_named_failure_of_loading_is_that_error() -> None:
    with pytest.raises(ModelUnreadable, match="failLoad=ModelUnreadable"):
        loaded(sim_config({"failLoad": "ModelUnreadable"}))


def test_a_cache_beyond_the_card_is_out_of_memory() -> None:
    with pytest.raises(DeviceOutOfMemory):
        loaded(sim_config({"deviceMemoryBytes": 2**30, "weightBytes": 0, "blockBytes": 2**24}))


def test_the_vllm_engine_is_refused_with_a_sentence() -> None:
    config = sim_config()
    vllm = config.engine.model_copy(update={"name": EngineName.VLLM})
    with pytest.raises(ConfigError, match="engine vllm is not built yet"):
        select_engine(config.model_copy(update={"engine": vllm}))


def test_serving_with_the_sim_engine_imports_no_torch() -> None:
    program = (
        "import sys, gaudi_runtime.serve, gaudi_runtime.engines.sim.engine;"
        "sys.exit(bool({'torch', 'transformers', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
