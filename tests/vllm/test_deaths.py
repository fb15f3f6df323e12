"""A vLLM process that hangs or dies during warm-up. The report names the bucket, and the runtime ends."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until
from tests.vllm.configs import vllm_config

STALL_SECONDS = 15


def core_process(runtime: RuntimeProcess) -> psutil.Process:
    """Return the vLLM process that has loaded the model."""
    below = psutil.Process(runtime.process.pid).children(recursive=True)
    return next(each for each in below if "EngineCore" in "".join(each.cmdline()))


@contextmanager
def start_until_first_bucket(checkpoint: Path, folder: Path) -> Iterator[RuntimeProcess]:
    """Start a runtime and wait for its first bucket."""
    config = vllm_config(checkpoint, folder, ExecutionMode.TORCH_COMPILE)
    serving = config.serving.model_copy(update={"stall_timeout_seconds": STALL_SECONDS})
    with runtime_process(folder, config.model_copy(update={"serving": serving})) as runtime:
        # Wait for the first bucket. A compilation first reads the free memory. The test must not disturb the processes
        # before this read.
        runtime.until(lambda report: report.prompt.current is not None)
        yield runtime


def test_hanging_bucket_is_reported_after_the_stall_timeout(checkpoint: Path, tmp_path: Path) -> None:
    with start_until_first_bucket(checkpoint, tmp_path) as runtime:
        core = core_process(runtime)
        core.send_signal(signal.SIGSTOP)
        assert runtime.exit_code() == 1
        log = runtime.log.read_text(errors="replace")
        assert f"did not answer the call warm prompt (1, 128, 0) within {STALL_SECONDS} s" in log
        wait_until(lambda: not core.is_running())


def test_process_death_in_warm_up_ends_runtime_and_names_bucket(checkpoint: Path, tmp_path: Path) -> None:
    with start_until_first_bucket(checkpoint, tmp_path) as runtime:
        core_process(runtime).send_signal(signal.SIGKILL)
        assert runtime.exit_code() == 1
        log = runtime.log.read_text(errors="replace")
        assert re.search(r"the call warm prompt \(1, \d+, 0\): EngineCore .*SIGKILL", log)
