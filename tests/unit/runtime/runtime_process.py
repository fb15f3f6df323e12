"""A real `gaudi-runtime serve` process, watched through its ports as the operator and the kubelet do."""

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
"""Seconds, below the limit of a test: nobody waits them unless a process never comes."""


class RuntimeProcess:
    """The process and its two addresses."""

    def __init__(self, process: subprocess.Popen[bytes], config: RuntimeConfig, log: Path) -> None:
        self.process, self.log = process, log
        self.status_port, self.model_port = config.serving.status_port, config.serving.model_port
        self.model_url = f"http://127.0.0.1:{self.model_port}"
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.status_port}", timeout=PATIENCE, trust_env=False)

    def get(self, path: str, **query: Any) -> httpx.Response:
        """GET on the status port."""
        return self._client.get(path, params=query)

    def report(self, after: int = 0, wait: float = 0) -> WarmupReport:
        """The WarmupReport, long-polled when `wait` is given."""
        answer = self.get("/v1/warmup", after=after, wait=wait)
        answer.raise_for_status()
        return WarmupReport.model_validate_json(answer.content)

    def follow(self, phase: Phase) -> list[WarmupReport]:
        """Long-poll until `phase`; every report on the way."""
        return self.until(lambda report: report.phase is phase)

    def until(self, condition: Callable[[WarmupReport], bool]) -> list[WarmupReport]:
        """Long-poll until a report is as `condition` wants it; every report on the way."""
        reports = [self.report()]
        while not condition(reports[-1]):
            assert reports[-1].failure is None, reports[-1].failure
            reports.append(self.report(after=reports[-1].sequence, wait=30))
        return reports

    def model_port_open(self) -> bool:
        """Whether somebody listens on the model port."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.model_port)) == 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, as the kubelet or a hook does."""
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the end."""
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End the process however it is."""
        self._client.close()
        self.process.kill()
        self.process.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    """Look every 20 ms until `condition` holds; a bounded wait that fails with the condition's name."""
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
    """Start a runtime on `config` (or on `text` as its file) and wait for its status port; `module` is what runs."""
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
