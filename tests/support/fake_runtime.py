"""A fake status port. It serves the WarmupReport that a test sets. Like the real port, it supports long polling."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from uuid import uuid4

from aiohttp import web

from gaudi_runtime.contract.report import MemorySplitReport, Phase, PhaseProgressReport, PlanGapsReport, WarmupReport

STATUS_PORT = 8001
PLANNED = 10

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Runtime(Protocol):
    """The interface of a container, as the fake kubelet uses it."""

    address: str
    container_id: str
    on_change: Callable[[], None]

    @property
    def serving(self) -> bool:
        """Whether the readiness probe succeeds."""

    async def start(self) -> None:
        """Start the container."""

    async def stop(self) -> None:
        """Stop the container immediately."""


class FakeRuntime:
    """A fake container instance."""

    def __init__(self, address: str, plan_hash: str) -> None:
        """Create the report. The method `start` opens the port."""
        self.address = address
        self.container_id = f"test://{uuid4().hex}"
        buckets = PhaseProgressReport(planned=PLANNED)
        self.report = WarmupReport(
            instance=uuid4().hex,
            sequence=1,
            plan_hash=plan_hash,
            phase=Phase.STARTING,
            prompt=buckets,
            decode=buckets,
            memory=MemorySplitReport(free=0, usable=0, graphs=0, kv_cache=0, kv_blocks=64),
            gaps=PlanGapsReport(),
            simulated=True,
        )
        self.answer: Answer | None = None
        self.traffic = ""
        self.on_change: Callable[[], None] = lambda: None
        self.polls = 0
        self._news = asyncio.Event()
        self._runner: web.AppRunner | None = None

    def update(self, **changes: Any) -> None:
        """Change the report and answer the waiting polls."""
        self.report = self.report.model_copy(update={**changes, "sequence": self.report.sequence + 1})
        news, self._news = self._news, asyncio.Event()
        news.set()
        self.on_change()

    def captured(self, prompt: int, decode: int, phase: Phase = Phase.CAPTURING) -> None:
        """Report that all buckets are warm and these numbers of graphs captured. The others do not fit into memory."""
        self.update(phase=phase, prompt=_progress(prompt), decode=_progress(decode))

    def warm(self) -> None:
        """Report that all graphs are captured and the runtime serves traffic."""
        self.update(
            phase=Phase.SERVING,
            prompt=_progress(PLANNED),
            decode=_progress(PLANNED),
            sampler_done=True,
            defragmenter_done=True,
        )

    @property
    def serving(self) -> bool:
        """Whether the readiness probe of the container succeeds."""
        return self.report.phase is Phase.SERVING

    async def start(self) -> None:
        """Listen on the pod's address."""
        app = web.Application()
        app.router.add_get("/v1/warmup", self._warmup)
        app.router.add_get("/v1/traffic", self._traffic)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, STATUS_PORT).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner:
            # cleanup() closes the port. A connection that asyncio has accepted but not yet passed to aiohttp would then
            # stay open (CPython issue 109564).
            while accepting := [each for each in asyncio.all_tasks() if _is_accepting(each)]:
                await asyncio.wait(accepting)
            await self._runner.cleanup()
            self._runner = None

    async def _warmup(self, request: web.Request) -> web.StreamResponse:
        self.polls += 1
        if self.answer:
            return await self.answer(request)
        after, wait = int(request.query.get("after", 0)), float(request.query.get("wait", 0))
        try:
            async with asyncio.timeout(wait):
                while after == self.report.sequence:
                    await self._news.wait()
        except TimeoutError:
            pass
        return web.Response(text=self.report.model_dump_json(by_alias=True), content_type="application/json")

    async def _traffic(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text=self.traffic)


def _progress(captured: int) -> PhaseProgressReport:
    return PhaseProgressReport(
        planned=PLANNED, warmed=PLANNED, captured=captured, left_out_for_memory=PLANNED - captured
    )


def _is_accepting(task: asyncio.Task[Any]) -> bool:
    """Return whether asyncio started this task for a connection that it has accepted."""
    return getattr(task.get_coro(), "__name__", "") == "_accept_connection2"
