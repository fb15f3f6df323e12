"""One runtime process, observed through its ports like a pod by the kubelet and the operator."""

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
from gaudi_runtime.hardware.report import ReportInstanceStart, ReportStartPoll

POLL_SECONDS = 0.1
"""The interval between two polls of a starting instance. A gate that opens early for longer than this is noticed."""
ANSWER_SECONDS = 60.0
LOG_LINES = 60


class TrialEnded(Exception):
    """The error that ends a hardware trial early. The message is a sentence."""


class Instance:
    """An instance of a hardware trial: one process of `gaudi-runtime serve` with its own folder."""

    def __init__(self, name: str, config: RuntimeConfig, folder: Path, variables: Mapping[str, str]) -> None:
        """Prepare the instance. `variables` are all environment variables of its process."""
        self.name, self.config = name, config
        self.model_url = f"http://127.0.0.1:{config.serving.model_port}"
        self._folder, self._variables = folder, variables
        self._process: asyncio.subprocess.Process
        status_url = f"http://127.0.0.1:{config.serving.status_port}"
        self._status_client = httpx.AsyncClient(base_url=status_url, timeout=ANSWER_SECONDS, trust_env=False)

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        config_file = self._folder / "config.json"
        config_file.write_text(self.config.model_dump_json(by_alias=True))
        with self._log_file.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gaudi_runtime", "serve", "--config", str(config_file)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=dict(self._variables),
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._status_client.aclose()
        with suppress(psutil.NoSuchProcess):
            root_process = psutil.Process(self._process.pid)
            for process in (*root_process.children(recursive=True), root_process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        await self._process.wait()

    async def wait_until_serving(self, notify: Callable[[str], None]) -> ReportInstanceStart:
        """Poll the probes, the model port and the report until the instance serves. Return the facts of its start.

        `notify` is called with each new phase. Raises TrialEnded.
        """
        start = time.monotonic()
        last_poll_time, poll_count, early_polls = start, 0, []
        phase_seconds: dict[Phase, float] = defaultdict(float)
        while True:
            is_ready, is_open = await self._is_ready(), await self._is_port_open()
            # Read the report after the two probes. If a probe already succeeded, the report must show that the instance
            # serves.
            report = await self._try_read_report()
            now = time.monotonic()
            if report is not None:
                poll_count += 1
                if report.phase not in phase_seconds:
                    notify(f"{self.name}: {report.phase}, {report.prompt.planned + report.decode.planned} buckets")
                phase_seconds[report.phase] += now - last_poll_time
                if report.failure:
                    raise TrialEnded(f"The instance cannot serve ({report.failure.reason}): {report.failure.message}")
                if report.phase is Phase.SERVING and is_ready:
                    break
                if (is_ready or is_open) and report.phase is not Phase.SERVING:
                    early_polls.append(
                        ReportStartPoll(seconds=now - start, ready=is_ready, open=is_open, phase=report.phase)
                    )
            if self._process.returncode is not None:
                raise TrialEnded(f"The process of the instance ended with exit code {self._process.returncode}.")
            last_poll_time = now
            await asyncio.sleep(POLL_SECONDS)
        del phase_seconds[Phase.SERVING]
        return ReportInstanceStart(
            name=self.name,
            strategy=self.config.bucketing.strategy,
            polls=poll_count,
            early=tuple(early_polls),
            seconds=now - start,
            phases=dict(phase_seconds),
            report=report,
        )

    async def read_report(self) -> WarmupReport:
        """Return the current report of the instance. Raises TrialEnded."""
        report = await self._try_read_report()
        if report is None:
            raise TrialEnded("The status port of the instance does not answer.")
        return report

    async def wait_for_stable_counts(self, settle_seconds: float) -> WarmupReport:
        """Wait until the counts stay unchanged for `settle_seconds`, and return the report. Raises TrialEnded."""
        report = await self.read_report()
        while True:
            await asyncio.sleep(settle_seconds)
            next_report = await self.read_report()
            if next_report.served == report.served:
                return next_report
            report = next_report

    async def terminate(self) -> int:
        """Send SIGTERM, wait until the running answers are finished, and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    def last_log_lines(self) -> tuple[str, ...]:
        """Return the last lines of the log."""
        return tuple(self._log_file.read_text(errors="replace").splitlines()[-LOG_LINES:])

    @property
    def _log_file(self) -> Path:
        return self._folder / "log"

    async def _is_ready(self) -> bool:
        try:
            return (await self._status_client.get(READYZ_PATH)).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def _is_port_open(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.config.serving.model_port)
        except OSError:
            return False
        writer.close()
        return True

    async def _try_read_report(self) -> WarmupReport | None:
        try:
            answer = await self._status_client.get(WARMUP_PATH)
        except httpx.TransportError:
            return None
        return WarmupReport.model_validate_json(answer.content)
