"""Data parallelism on a real vLLM: two engine cores behind one server. Every report covers both cores."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI

from gaudi_runtime.contract.config import ExecutionMode, ParallelismConfig
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.traffic.histogram import parse_traffic
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until
from tests.vllm.configs import vllm_config
from tests.vllm.greedy_tokens import served_tokens, transformers_tokens
from tests.vllm.two_pods import SHARED_CORES

PROMPTS = [[5, 6, 7], list(range(3, 70)), list(range(9, 30)), [8] * 11]


@pytest.fixture(scope="module")
def runtime(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    """A runtime that is warm and serves."""
    folder = tmp_path_factory.mktemp("two-cores")
    config = vllm_config(checkpoint, folder, ExecutionMode.EAGER)
    both = config.model_copy(update={"parallelism": ParallelismConfig(data=2)})
    with runtime_process(folder, both, variables=SHARED_CORES) as process:
        process.follow(Phase.SERVING)
        yield process
        # Stop the runtime with SIGTERM. After SIGKILL, vLLM's coordinator process would continue to run. None of our
        # workers runs in the coordinator, so nothing would end it.
        process.signal(signal.SIGTERM)
        process.exit_code()


def core_processes(runtime: RuntimeProcess) -> list[psutil.Process]:
    """Return the engine core processes. Each of these processes has loaded a copy of the model."""
    below = psutil.Process(runtime.process.pid).children(recursive=True)
    return [each for each in below if "EngineCore" in "".join(each.cmdline())]


def test_every_core_is_warmed_up_bucket_by_bucket(runtime: RuntimeProcess) -> None:
    report = runtime.report()
    assert len(core_processes(runtime)) == 2
    assert report.prompt.warmed == report.prompt.planned == 2
    assert report.decode.warmed == report.decode.planned > 2


def test_kv_block_metric_is_the_sum_of_both_cores(runtime: RuntimeProcess) -> None:
    memory = runtime.report().memory
    assert memory is not None
    assert f"\ngaudi_kv_blocks {2.0 * memory.kv_blocks}\n" in runtime.get("/metrics").text


def test_prompts_of_both_cores_are_answered_and_counted(runtime: RuntimeProcess, checkpoint: Path) -> None:
    """Send prompts one after the other. Each core gets two prompts, and each prompt is a separate batch."""
    with OpenAI(base_url=f"{runtime.model_url}/v1", api_key="none", max_retries=0) as openai:
        assert served_tokens(openai, PROMPTS, 8) == transformers_tokens(checkpoint, PROMPTS, 8)
    lengths = sorted(map(len, PROMPTS))

    def count_served_prompts() -> list[int]:
        traffic = parse_traffic(runtime.get("/v1/traffic").text).shapes_of(BucketPhase.PROMPT)
        return sorted(shape.query_len for shape, count in traffic.items() for _ in range(int(count)))

    wait_until(lambda: count_served_prompts() == lengths)


def test_death_of_the_second_core_ends_the_runtime(runtime: RuntimeProcess) -> None:
    second = next(each for each in core_processes(runtime) if "DP1" in "".join(each.cmdline()))
    second.send_signal(signal.SIGKILL)
    assert runtime.exit_code() == 1
    log = runtime.log.read_text(errors="replace")
    assert re.search(r"died while it served: .*EngineCore_DP1 (was|were) ended by SIGKILL", log)
