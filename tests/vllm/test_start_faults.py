"""Starts that fail, each with an error message.

All starts run in the test process, so that vLLM is imported only once.
"""

import asyncio
import gc
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.create_engine import create_engine
from gaudi_runtime.errors import (
    ConfigError,
    ModelNotFound,
    ModelUnreadable,
    PlanImpossible,
    RankFailed,
    UnsupportedModel,
)
from gaudi_runtime.process.worker import run_in_worker_thread
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.support.knob_defaults import wrong_defaults
from tests.vllm.configs import MIB, vllm_config

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Libraries that vLLM imports raise it.
    # vLLM does not close its ZeroMQ contexts. Python emits this warning when the garbage collector closes a context.
    pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"),
]

Change = Callable[[Path], None]


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Restore the environment variables, which vLLM changes.

    Collect garbage, so that a leak is reported by the test that caused the leak.
    """
    with mock.patch.dict(os.environ):
        yield
    gc.collect()


@pytest.fixture
def start(checkpoint: Path, tmp_path: Path) -> Callable[..., None]:
    """Start an engine on a copy of the checkpoint after `change` has damaged the copy."""

    def _start(change: Change = lambda _: None, **settings: Any) -> None:
        folder = shutil.copytree(checkpoint, tmp_path / "model")
        change(folder)
        config: RuntimeConfig = vllm_config(folder, tmp_path, **settings)
        asyncio.run(start_up(config))

    return _start


async def start_up(config: RuntimeConfig) -> None:
    """Start the engine in the same way as `gaudi-runtime serve`."""
    make = partial(create_engine, loop=asyncio.get_running_loop())
    board = ReportBoard("0" * 64)
    await run_in_worker_thread(lambda: start_engine(config, board, threading.Event(), make))


def no_process_is_left() -> bool:
    return not [each for each in psutil.Process().children(recursive=True) if "EngineCore" in each.name()]


def write_config(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def test_architecture_unknown_to_vllm_is_unsupported(start: Callable[..., None]) -> None:
    with pytest.raises(UnsupportedModel, match="FancyForCausalLM"):
        start(write_config(architectures=["FancyForCausalLM"]))
    assert no_process_is_left()


def test_model_of_an_unknown_type_is_unsupported(start: Callable[..., None]) -> None:
    with pytest.raises(UnsupportedModel, match="model_type 'fancy'"):
        start(write_config(model_type="fancy"))


def test_too_large_model_is_refused_before_it_is_loaded(start: Callable[..., None]) -> None:
    with pytest.raises(PlanImpossible, match=r"weights take 1\.63 MiB, but engine\.deviceMemoryBytes is 1 MiB"):
        start(device_memory=MIB)


def test_pooling_model_is_unsupported(start: Callable[..., None]) -> None:
    with pytest.raises(RankFailed, match="Warm-up of pooling models is not supported") as refused:
        start(write_config(architectures=["LlamaForTextEncoding"]))
    assert refused.value.reason == "UnsupportedModel"
    assert no_process_is_left()


def test_length_above_the_maximum_of_the_model_is_refused(start: Callable[..., None]) -> None:
    with pytest.raises(ConfigError, match="max_model_len"):
        start(max_model_len=100_000)
    assert no_process_is_left()


def test_missing_tokenizer_raises_model_not_found(start: Callable[..., None]) -> None:
    def without_tokenizer(folder: Path) -> None:
        for file in folder.glob("tokenizer*"):
            file.unlink()

    with pytest.raises(ModelNotFound, match="tokenizer"):
        start(without_tokenizer)


def test_truncated_weights_are_unreadable(start: Callable[..., None]) -> None:
    def cut_off(folder: Path) -> None:
        file = folder / "model.safetensors"
        os.truncate(file, file.stat().st_size // 2)

    with pytest.raises(ModelUnreadable, match=r"model\.safetensors"):
        start(cut_off)
    assert no_process_is_left()


def test_knob_defaults_equal_those_of_the_installed_release() -> None:
    assert wrong_defaults() == {}
