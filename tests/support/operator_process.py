"""The operator as a separate process, as in its pod. The methods start, read and stop the process."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx
from prometheus_client.parser import text_string_to_metric_families

_PORT = "on port "
SHORT_LEASE = {"lease_duration_seconds": 3, "renew_deadline_seconds": 2}
"""For tests that wait until a killed leader is replaced. An operator ends if the API server stalls for two seconds."""


class OperatorProcess:
    """The command `python -m gaudi_operator run` with the given settings, used as an async context manager."""

    def __init__(self, kubeconfig: Path, log: Path, **settings: Any) -> None:
        """Create the process. `settings` contains fields of gaudi_operator.settings.

        The process writes its output to `log`.
        """
        fixed = {
            "runtime_image": "registry.test/runtime:1",
            "hpu_image": "registry.test/runtime-hpu:1",
            "allow_simulation": True,
            "http_host": "127.0.0.1",
            "http_port": 0,
            "retry_period_seconds": 0.5,
            # The process keeps its identity when it is restarted. It must not wait until its own lease expires.
            "identity": f"operator-{uuid4().hex[:8]}",
            "log_format": "json",
        }
        chosen = {f"GAUDI_OPERATOR_{name.upper()}": str(value) for name, value in {**fixed, **settings}.items()}
        self._environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), **chosen}
        self.log = log
        self.cgroup: Path | None = None
        """The cgroup folder of the next process, with a file `cgroup.procs`. The process starts in this cgroup."""
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start the process and wait until it answers."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the process, whether the test passed or failed."""
        if self.running:
            await self.terminate()

    async def start(self) -> None:
        """Start a process and wait until it answers. The log of each process is appended to the same file."""
        position = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("a") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stderr=output, stdout=output
            )
        async with asyncio.timeout(30):
            while not (port := self._port(position)):
                if self._process.returncode is not None:
                    raise AssertionError(f"The operator ended by itself:\n{self.log.read_text()[position:]}")
                await asyncio.sleep(0.05)
        self._url = f"http://127.0.0.1:{port}"

    @property
    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "gaudi_operator", "run"]
        if self.cgroup is None:
            return command
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.cgroup / "cgroup.procs"), *command]

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process
        return self._process.pid

    async def terminate(self) -> int:
        """Send SIGTERM, as a kubelet does, and return the exit code."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> int:
        """Send SIGKILL, and return the exit code."""
        return await self._end(signal.SIGKILL)

    async def wait(self, seconds: float) -> int:
        """Wait until the process ends by itself, and return the exit code."""
        assert self._process
        return await asyncio.wait_for(self._process.wait(), seconds)

    async def get(self, path: str) -> httpx.Response:
        """Send a GET request to the operator's HTTP port."""
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.get(f"{self._url}{path}")

    async def samples(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the values of one metric by their sorted labels."""
        families = text_string_to_metric_families((await self.get("/metrics")).text)
        found = [sample for family in families for sample in family.samples if sample.name == name]
        return {tuple(sorted(sample.labels.items())): sample.value for sample in found}

    async def value(self, name: str) -> float:
        """Return the sum of a metric over all labels."""
        return sum((await self.samples(name)).values())

    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON lines of the operator's log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    async def _end(self, number: int) -> int:
        assert self._process
        self._process.send_signal(number)
        return await self.wait(20)

    def _port(self, position: int) -> str:
        text = self.log.read_text()[position:]
        return text.split(_PORT, 1)[1].split(".")[0] if _PORT in text else ""
