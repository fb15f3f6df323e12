"""Checkpoints and engines that tests share, because creating one takes seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.engines.torch.engine import TorchEngine
from tests.unit.runtime.engines.torch.engines import start, torch_config

FAMILIES = ("llama", "qwen2", "qwen3")
Reference = Callable[[list[int], int], list[int]]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Limit torch to one thread, because threads that share a core wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One checkpoint per family."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {family: make_checkpoint(folder / family, family) for family in FAMILIES}


@pytest.fixture(scope="session")
def checkpoint(checkpoints: dict[str, Path]) -> Path:
    """The checkpoint for tests that need only one family."""
    return checkpoints["qwen3"]


@pytest.fixture(scope="session")
def warm_engine(checkpoint: Path) -> TorchEngine:
    """An engine that has captured all graphs."""
    return start(torch_config(checkpoint))


@pytest.fixture
def engine(warm_engine: TorchEngine) -> Iterator[TorchEngine]:
    """The warm engine with all counters at zero. Each test must free all blocks that it uses."""
    warm_engine.start_serving()
    yield warm_engine
    assert warm_engine.current_load().used_blocks == 0


def reference_of(folder: Path) -> Reference:
    """Return a function that generates an exact number of tokens for one prompt, greedily, with `transformers`."""
    network: Any = AutoModelForCausalLM.from_pretrained(folder)
    network.generation_config.eos_token_id = None

    def generate(prompt: list[int], count: int) -> list[int]:
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        output = network.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False)
        answer: list[int] = output[0, len(prompt) :].tolist()
        return answer

    return generate


@pytest.fixture(scope="session")
def reference(checkpoint: Path) -> Reference:
    """The expected answers of the shared checkpoint."""
    return reference_of(checkpoint)
