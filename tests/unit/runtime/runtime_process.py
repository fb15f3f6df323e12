"""A real `gaudi-runtime serve` process. Tests read its ports, as the operator and the kubelet do."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase, WarmupReport

PATIENCE = 240.0
"""A timeout below the limit of a test. It is reached only if a process hangs."""


class RuntimeProcess:
    """The process and its two addresses."""

    def __init__(self, process: subprocess.Popen[bytes], config: RuntimeConfig, log: Path) -> None:
        self.process, self.log = process, log
        self.status_port, self.model_port = config.serving.status_port, config.serving.model_port
        self.model_url = f"http://127.0.0.1:{self.model_port}"
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.status_port}", timeout=PATIENCE, trust_env=False)

    def get(self, path: str, **query: Any) -> httpx.Response:
        """Send a GET request to the status port."""
        return self._client.get(path, params=query)

    def report(self, after: int = 0, wait: float = 0) -> WarmupReport:
        """Return the WarmupReport, with a long poll if `wait` is given."""
        answer = self.get("/v1/warmup", after=after, wait=wait)
        answer.raise_for_status()
        return WarmupReport.model_validate_json(answer.content)

    def follow(self, phase: Phase) -> list[WarmupReport]:
        """Long-poll until the report has this phase, and return all reports."""
        return self.until(lambda report: report.phase is phase)

    def until(self, condition: Callable[[WarmupReport], bool]) -> list[WarmupReport]:
        """Long-poll until `condition` holds for a report, and return all reports."""
        reports = [self.report()]
        while not condition(reports[-1]):
            assert reports[-1].failure is None, reports[-1].failure
            reports.append(self.report(after=reports[-1].sequence, wait=30))
        return reports

    def model_port_open(self) -> bool:
        """Return True if the model port is open."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.model_port)) == 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, as the kubelet or a hook does."""
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait until the process ends, and return its exit code."""
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Kill the process in any state."""
        self._client.close()
        self.process.kill()
        self.process.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll every 20 ms until `condition` holds. Fails with the condition's name after a timeout."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true"
        time.sleep(0.02)


@contextlib.contextmanager
def runtime_process(
    folder: Path,
    config: RuntimeConfig,
    text: str | None = None,
    variables: Mapping[str, str] | None = None,
    module: str = "gaudi_runtime",
) -> Iterator[RuntimeProcess]:
    """Start a runtime with `config`, or with `text` as the content of its file, and wait for its status port.

    `module` is the Python module that the process runs.
    """
    file, log = folder / "config.json", folder / "log"
    file.write_text(text or config.model_dump_json(by_alias=True))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "serve", "--config", str(file)],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(variables or {})},
        )
    runtime = RuntimeProcess(process, config, log)
    try:
        wait_until(lambda: _answers(runtime) or process.poll() is not None)
        yield runtime
    finally:
        runtime.close()


def _answers(runtime: RuntimeProcess) -> bool:
    try:
        runtime.get("/livez")
    except httpx.TransportError:
        return False
    return True
