"""One runtime process, watched through its ports as the kubelet and the operator watch a pod."""

import asyncio
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx
import psutil

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.ports import READYZ_PATH, WARMUP_PATH
from gaudi_runtime.contract.report import Phase, WarmupReport
from gaudi_runtime.hardware.report import Look, Start

LOOK_SECONDS = 0.1
"""Between two looks at a starting instance: a gate that is open for longer before its time is seen."""
ANSWER_SECONDS = 60.0
LOG_LINES = 60


class Broken(Exception):
    """The instance ended, or cannot serve; the message is a sentence."""


class Instance:
    """`gaudi-runtime serve` with a configuration, in a folder of its own."""

    def __init__(self, name: str, config: RuntimeConfig, folder: Path, variables: Mapping[str, str]) -> None:
        """`variables` are its whole environment."""
        self.name, self.config = name, config
        self.model_url = f"http://127.0.0.1:{config.serving.model_port}"
        self._folder, self._variables = folder, variables
        self._process: asyncio.subprocess.Process
        status = f"http://127.0.0.1:{config.serving.status_port}"
        self._status = httpx.AsyncClient(base_url=status, timeout=ANSWER_SECONDS, trust_env=False)

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "config.json"
        file.write_text(self.config.model_dump_json(by_alias=True))
        with self._log.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gaudi_runtime", "serve", "--config", str(file)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=dict(self._variables),
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._status.aclose()
        with suppress(psutil.NoSuchProcess):
            tree = psutil.Process(self._process.pid)
            for each in (*tree.children(recursive=True), tree):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        await self._process.wait()

    async def until_serving(self, tell: Callable[[WarmupReport], None]) -> Start:
        """Look at probes, model port and report until it serves; `tell` hears every report. Raises Broken."""
        begun = time.monotonic()
        before, looks, early = begun, 0, []
        phases: dict[Phase, float] = defaultdict(float)
        while True:
            ready, is_open = await self._ready(), await self._open()
            # Last: whoever was ready or open before this report served must serve in it.
            report = await self._report()
            now = time.monotonic()
            if report is not None:
                looks += 1
                tell(report)
                phases[report.phase] += now - before
                if report.failure:
                    raise Broken(f"It cannot serve ({report.failure.reason}): {report.failure.message}")
                if report.phase is Phase.SERVING and ready:
                    break
                if (ready or is_open) and report.phase is not Phase.SERVING:
                    early.append(Look(seconds=now - begun, ready=ready, open=is_open, phase=report.phase))
            if self._process.returncode is not None:
                raise Broken(f"Its process ended with {self._process.returncode}.")
            before = now
            await asyncio.sleep(LOOK_SECONDS)
        del phases[Phase.SERVING]
        return Start(
            name=self.name, looks=looks, early=tuple(early), seconds=now - begun, phases=dict(phases), report=report
        )

    async def report(self) -> WarmupReport:
        """Its report, with the counts of now. Raises Broken."""
        found = await self._report()
        if found is None:
            raise Broken("Its status port does not answer.")
        return found

    async def counted(self, settled: float) -> WarmupReport:
        """Its report once the counts have stood still for so many seconds. Raises Broken."""
        report = await self.report()
        while True:
            await asyncio.sleep(settled)
            later = await self.report()
            if later.served == report.served:
                return later
            report = later

    def closing(self) -> None:
        """As a pod's preStop hook: answers close their connections."""
        self._process.send_signal(signal.SIGUSR1)

    async def end(self) -> int:
        """SIGTERM, and the exit code once open answers are finished."""
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    def last_lines(self) -> tuple[str, ...]:
        """The end of its log."""
        return tuple(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    async def _ready(self) -> bool:
        try:
            return (await self._status.get(READYZ_PATH)).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def _open(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.config.serving.model_port)
        except OSError:
            return False
        writer.close()
        return True

    async def _report(self) -> WarmupReport | None:
        try:
            answer = await self._status.get(WARMUP_PATH)
        except httpx.TransportError:
            return None
        return WarmupReport.model_validate_json(answer.content)
