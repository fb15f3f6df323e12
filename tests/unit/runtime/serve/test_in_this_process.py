"""The life of a runtime in the process of the tests, so that `make mutants` can change its code (serve.py).

test_story.py and test_faults.py have the same with a real process.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from gaudi_runtime import serve as serving
from gaudi_runtime.contract.config import RuntimeConfig, WarmupConfig, plan_hash
from gaudi_runtime.contract.ports import INSTANCE_HEADER
from gaudi_runtime.contract.report import NO_PLAN, BucketPhase, Phase, RuntimeFailureReport, WarmupReport
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.errors import EngineLost, HubUnreachable
from gaudi_runtime.process import exit as exiting
from tests.unit.runtime.configs import sim_config

PATIENCE = 60.0
ONE_REQUEST = httpx.Limits(max_keepalive_connections=0)
"""Close each connection after its answer. The server would wait five seconds for another request."""


@dataclass
class Runtime:
    """A running `serve`, and what it did to the process: `exits` are the failures with which it would have ended."""

    status: httpx.AsyncClient
    model: httpx.AsyncClient
    task: asyncio.Task[None]
    handlers: dict[int, Callable[[], None]]
    exits: list[RuntimeFailureReport] = field(default_factory=list)

    async def report(self, **query: float) -> WarmupReport:
        """Return the WarmupReport, with a long poll if `wait` is given."""
        answer = await self.status.get("/v1/warmup", params=query)
        return WarmupReport.model_validate_json(answer.content)

    async def follow(self, phase: Phase) -> list[WarmupReport]:
        """Long-poll until the report has this phase, and return all reports."""
        reports: list[WarmupReport] = []
        while not reports or reports[-1].phase is not phase:
            reports.append(await self.report(after=reports[-1].sequence if reports else 0, wait=30))
        return reports

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Deliver a signal, and wait until `serve` returns."""
        self.handlers[number]()
        await asyncio.wait_for(self.task, PATIENCE)


@asynccontextmanager
async def running(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: RuntimeConfig,
    text: str | None = None,
    restart_seconds: float = 3600,
) -> AsyncIterator[Runtime]:
    """Run `serve` with this configuration, or with `text` as the content of its file."""
    handlers: dict[int, Callable[[], None]] = {}
    exits: list[RuntimeFailureReport] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", handlers.__setitem__)
    # Other tests of this process may have children and open files.
    monkeypatch.setattr(serving, "end_children", lambda: None)
    monkeypatch.setattr(serving, "raise_open_file_limit", lambda: None)
    monkeypatch.setattr(serving, "exit_with_failure", exits.append)
    monkeypatch.setattr(exiting, "exit_with_failure", exits.append)
    file = folder / "config.json"
    file.write_text(text or config.model_dump_json(by_alias=True))
    task = asyncio.create_task(serving.serve(file, restart_seconds=restart_seconds))
    status, model = (f"http://127.0.0.1:{port}" for port in (config.serving.status_port, config.serving.model_port))
    async with (
        asyncio.timeout(PATIENCE),
        restored_environment(),
        httpx.AsyncClient(base_url=status, trust_env=False, timeout=PATIENCE) as status_client,
        httpx.AsyncClient(base_url=model, trust_env=False, timeout=PATIENCE, limits=ONE_REQUEST) as model_client,
    ):
        runtime = Runtime(status_client, model_client, task, handlers, exits)
        try:
            while not task.done() and not await answers(status_client):
                pass
            yield runtime
        finally:
            task.cancel()
            await asyncio.wait({task})


@asynccontextmanager
async def restored_environment() -> AsyncIterator[None]:
    """Restore the environment, in which the engine sets its variables."""
    with mock.patch.dict(os.environ):
        yield


async def answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/livez")).is_success
    except httpx.TransportError:
        return False


async def test_model_is_served_when_it_is_warm_until_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = sim_config()
    async with running(tmp_path, monkeypatch, config) as runtime:
        report = (await runtime.follow(Phase.SERVING))[-1]
        body = {"model": "echo", "prompt": "Hello", "max_tokens": 3}
        answer = await runtime.model.post("/v1/completions", json=body)
        assert answer.json()["choices"][0]["text"]
        assert answer.headers[INSTANCE_HEADER] == report.instance
        assert report.plan_hash == plan_hash(config.bucketing, config.limits)
        assert report.prompt.warmed == report.prompt.planned > 0
        await runtime.end()
        assert not await answers(runtime.status)
    assert runtime.exits == []


async def test_cold_batches_are_reported_while_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = sim_config(warmup=WarmupConfig(enabled=False))
    async with running(tmp_path, monkeypatch, config) as runtime:
        report = (await runtime.follow(Phase.SERVING))[-1]
        body = {"model": "echo", "prompt": "x" * 100, "max_tokens": 1}
        assert (await runtime.model.post("/v1/completions", json=body)).is_success
        report = await runtime.report(after=report.sequence, wait=30)
        assert (BucketPhase.PROMPT, (1, 128, 0)) in {(cold.phase, cold.shape) for cold in report.cold_shapes}
        assert report.requests.running == 0
        await runtime.end()


class OwnApplication(SimEngine):
    """An engine with its own application and metrics, which can be lost, as vLLM."""

    lost = asyncio.Event()

    @asynccontextmanager
    async def application(self) -> AsyncIterator[ASGIApp]:
        """Run an application that answers all requests."""
        yield PlainTextResponse("of the engine")

    def collectors(self) -> Sequence[Collector]:
        """Return one metric."""
        registry = CollectorRegistry()
        Gauge("vllm:num_requests_waiting", "Waiting requests", registry=registry).set(7)
        return (registry,)  # type: ignore[return-value]

    def ignored_fields(self) -> dict[str, object]:
        """Ignore min_p."""
        return {"min_p": 0}

    def max_pixels(self) -> int:
        """Take no images."""
        return 0

    async def wait_until_lost(self) -> EngineLost:
        """Wait for the test."""
        await self.lost.wait()
        return EngineLost("vLLM hangs.")


async def test_engine_with_its_own_application_is_served_until_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnApplication, "lost", asyncio.Event())
    monkeypatch.setattr(serving, "create_engine", lambda config, loop: OwnApplication(config))
    async with running(tmp_path, monkeypatch, sim_config()) as runtime:
        await runtime.follow(Phase.SERVING)
        assert (await runtime.model.get("/version")).text == "of the engine"
        refusal = await runtime.model.post("/v1/completions", json={"prompt": "a", "min_p": 0.1})
        assert (refusal.status_code, refusal.json()["error"]["param"]) == (400, "min_p")
        assert (await runtime.model.post("/v1/completions", json={"prompt": "a"})).text == "of the engine"
        assert "vllm:num_requests_waiting 7.0" in (await runtime.status.get("/metrics")).text
        OwnApplication.lost.set()
        report = (await runtime.follow(Phase.FAILED))[-1]
        assert report.failure == RuntimeFailureReport(reason="EngineLost", message="vLLM hangs.")
        assert runtime.exits == [report.failure]
        await runtime.end()


async def test_running_answer_is_finished_after_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, monkeypatch, sim_config({"tokensPerSecond": 40})) as runtime:
        await runtime.follow(Phase.SERVING)
        body = {"model": "echo", "prompt": "x" * 100, "max_tokens": 20, "stream": True}
        async with runtime.model.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            runtime.handlers[signal.SIGTERM]()
            assert (await runtime.follow(Phase.DRAINING))[-1].phase is Phase.DRAINING
            assert [line async for line in lines][-2:] == ["data: [DONE]", ""]
        await asyncio.wait_for(runtime.task, PATIENCE)


async def test_wrong_configuration_is_reported_on_its_own_port_until_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = sim_config()
    text = f'{{"serving": {config.serving.model_dump_json(by_alias=True)}, "typo": 1}}'
    async with running(tmp_path, monkeypatch, config, text, restart_seconds=0) as runtime:
        report = (await runtime.follow(Phase.FAILED))[-1]
        assert report.failure is not None
        assert "typo: " in report.failure.message
        assert (report.plan_hash, runtime.task.done()) == (NO_PLAN, False)
        await runtime.end(signal.SIGINT)
    assert runtime.exits == []


async def test_passing_failure_ends_the_process_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, monkeypatch, sim_config({"failLoad": "DiskFull"}), restart_seconds=0) as runtime:
        await asyncio.wait_for(runtime.task, PATIENCE)
    assert [each.reason for each in runtime.exits] == ["DiskFull"]


async def test_lasting_failure_is_reported_until_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, monkeypatch, sim_config({"failLoad": "ModelNotFound"}), restart_seconds=0) as runtime:
        report = (await runtime.follow(Phase.FAILED))[-1]
        assert report.failure is not None
        assert (report.failure.reason, runtime.task.done()) == ("ModelNotFound", False)
        await runtime.end()
    assert runtime.exits == []


async def test_sigterm_during_the_warm_up_ends_it_between_two_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, monkeypatch, sim_config({"compileSeconds": 0.2})) as runtime:
        await runtime.follow(Phase.COMPILING)
        await runtime.end()
    assert runtime.exits == []


def test_failure_has_its_reason_and_a_defect_is_a_crash() -> None:
    known = serving.failure_to_serve(HubUnreachable("x" * 5000))
    assert (known.reason, known.message) == ("HubUnreachable", "x" * 2048)
    assert serving.failure_to_serve(KeyError("a")) == RuntimeFailureReport(reason="Crashed", message="KeyError: 'a'")
