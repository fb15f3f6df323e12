"""The torch engine on a Gaudi card, whose graphs return the same answers as transformers.generate on the CPU."""

from pathlib import Path

import pytest

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.torch.engine import TorchEngine
from gaudi_runtime.errors import DeviceOutOfMemory, DeviceUnavailable
from tests.unit.runtime.engines.torch.conftest import reference_of
from tests.unit.runtime.engines.torch.engines import answers, greedy, prompt_of, start, torch_config

PROMPTS = [prompt_of(length) for length in (3, 17, 32, 40, 1, 64)]

pytestmark = pytest.mark.hpu


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint"))


def started(checkpoint: Path) -> TorchEngine:
    try:
        return start(torch_config(checkpoint, engine={"device": "hpu", "execution_mode": ExecutionMode.HPU_GRAPHS}))
    except DeviceUnavailable as error:
        pytest.skip(str(error))


async def test_graphs_return_the_same_tokens_as_generate(checkpoint: Path) -> None:
    engine, reference = started(checkpoint), reference_of(checkpoint)
    assert await answers(engine, PROMPTS, greedy(24)) == [reference(prompt, 24) for prompt in PROMPTS]
    assert (engine.counters.recompiles, engine.counters.cold_batches) == (0, {})
    assert engine.counters.hits > 24
    await engine.close()


async def test_captured_graph_reduces_free_memory_by_its_reported_bytes(checkpoint: Path) -> None:
    engine = started(checkpoint)
    before = engine.memory().free
    taken = engine.capture(BucketPhase.PROMPT, Bucket(1024, 128, 0))
    assert taken == before - engine.memory().free
    assert taken >= 1024 * 128 * 128 * 4
    await engine.close()


async def test_graph_larger_than_the_card_raises_out_of_memory(checkpoint: Path) -> None:
    engine = started(checkpoint)
    with pytest.raises(DeviceOutOfMemory, match="no memory is left"):
        engine.capture(BucketPhase.PROMPT, Bucket(10**6, 4096, 0))
    await engine.close()
