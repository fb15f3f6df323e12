"""Our runtime and vLLM's own server as processes, with the same arguments, environment and client."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase, WarmupReport
from gaudi_runtime.engines.vllm.launch import engine_arguments
from gaudi_runtime.engines.vllm.memory import create_rank_memory
from gaudi_runtime.knobs.render import render_engine_options
from tests.unit.runtime.configs import free_port
from tests.vllm.configs import MODEL

PATIENCE = 300.0
LOOK_SECONDS = 0.05
COMPLETIONS = "/v1/completions"
END_SECONDS = 30.0
THREADS = {"OMP_NUM_THREADS": "1"}
"""The threads of the model's kernels: more would compete with the server and the client for two cores."""


@dataclass
class Server:
    """A started process with a `client`. vLLM's own server does not serve `status_url`."""

    process: psutil.Popen
    client: httpx.Client
    log: Path
    started: float
    url: str
    status_url: str

    def complete(self, prompts: list[list[int]], tokens: int) -> None:
        """Request `tokens` tokens after each prompt. Raise httpx.HTTPError if the request fails."""
        request = {"model": MODEL, "prompt": prompts, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        self.client.post(f"{self.url}{COMPLETIONS}", json=request).raise_for_status()

    def until_healthy(self) -> float:
        """Return the seconds from the start of the process until its model port answers.

        Raise AssertionError if the port does not answer in time.
        """
        self.until(lambda: self.client.get(f"{self.url}/health").is_success)
        return time.monotonic() - self.started

    def until_serving(self) -> list[WarmupReport]:
        """Return every report of our runtime until it serves. Raise AssertionError if the warm-up fails."""
        self.until(lambda: bool(self.report()))
        reports = [self.report()]
        while reports[-1].phase is not Phase.SERVING:
            reports.append(self.report(after=reports[-1].sequence, wait=30))
            assert reports[-1].failure is None, reports[-1].failure
        return reports

    def report(self, **query: float) -> WarmupReport:
        """Return our runtime's report. If `query` contains the parameters of a long poll, wait for a new report."""
        answer = self.client.get(f"{self.status_url}/v1/warmup", params=query)
        return WarmupReport.model_validate_json(answer.raise_for_status().content)

    def until(self, holds: Callable[[], bool]) -> None:
        """Poll until `holds` is true. A failed request counts as false."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.TransportError, httpx.HTTPStatusError):
                if holds():
                    return
            assert self.process.poll() is None, f"A server ended: {self._last_words()}"
            assert time.monotonic() < deadline, f"No answer: {self._last_words()}"
            time.sleep(LOOK_SECONDS)

    def end(self) -> None:
        """Kill the process tree, because vLLM's core process does not end with its parent."""
        tree = [*self.process.children(recursive=True), self.process]
        for each in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(tree, timeout=END_SECONDS)

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def ours(folder: Path, config: RuntimeConfig, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `gaudi-runtime serve`."""
    ports = {"model_port": free_port(), "status_port": free_port()}
    config = config.model_copy(update={"serving": config.serving.model_copy(update=ports)})
    file = folder / f"{ports['model_port']}.json"
    file.write_text(config.model_dump_json(by_alias=True))
    command = ["-m", "gaudi_runtime", "serve", "--config", str(file)]
    with _server(folder, command, _environment(config, environment or {}), *ports.values()) as server:
        yield server


@contextlib.contextmanager
def theirs(folder: Path, config: RuntimeConfig) -> Iterator[Server]:
    """Run vLLM's own server with our engine's arguments except the worker, and with equally few log lines."""
    port = free_port()
    given = engine_arguments(config, create_rank_memory(config).choose_kv_cache_size())
    arguments = [each for each in given if not each.startswith("--worker-cls")]
    command = ["-m", "vllm.entrypoints.openai.api_server", *arguments]
    command += ["--host=127.0.0.1", f"--port={port}", "--disable-uvicorn-access-log"]
    with _server(folder, command, _environment(config, {}), port) as server:
        yield server


def _environment(config: RuntimeConfig, more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **render_engine_options(config).env, **THREADS, "PYTHONUNBUFFERED": "1", **more}


@contextlib.contextmanager
def _server(
    folder: Path, command: list[str], environment: dict[str, str], port: int, status_port: int = 0
) -> Iterator[Server]:
    log = folder / f"{port}.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = psutil.Popen([sys.executable, *command], stdout=output, stderr=subprocess.STDOUT, env=environment)
    url, status_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{status_port}"
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        server = Server(process, client, log, started, url, status_url)
        try:
            yield server
        finally:
            server.end()
