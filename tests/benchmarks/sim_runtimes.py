"""The number of sim runtimes that one machine supports: start, memory and CPU at rest of 200 real processes.

    python -m tests.benchmarks.sim_runtimes [COUNT]

Every process warms up a recorded plan (24 prompt and 48 decode buckets) and serves. The exit code is 1 if a limit is
missed.
"""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import psutil

from gaudi_runtime.contract.ports import READYZ_PATH
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.benchmarks.figures import Figure, percentile, table
from tests.support.kube_api import until
from tests.unit.runtime.engines.sim.reference import reference_config

COUNT = 200
ALONE = 10
LOOK_SECONDS = 0.02
REST_SECONDS = 10.0
PATIENCE = 600.0
MIB = 2**20


class Sim:
    """One process with two ports."""

    def __init__(self, ports: tuple[int, int], folder: Path) -> None:
        """Start the process. Its configuration is written to `folder`."""
        self._url = f"http://127.0.0.1:{ports[1]}"
        serving = {"model_port": ports[0], "status_port": ports[1]}
        config = reference_config(time_scale=0)
        config = config.model_copy(update={"serving": config.serving.model_copy(update=serving)})
        file = folder / f"{ports[0]}.json"
        file.write_text(config.model_dump_json(by_alias=True))
        self._started = time.monotonic()
        command = [sys.executable, "-m", "gaudi_runtime", "serve", "--config", str(file)]
        self.process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    async def serving(self, client: httpx.AsyncClient) -> float:
        """Return the seconds from process start until serving. Raise AssertionError after PATIENCE seconds."""
        await until(partial(self._ready, client), "a runtime to serve", PATIENCE, LOOK_SECONDS)
        seconds = time.monotonic() - self._started
        report = WarmupReport.model_validate_json((await client.get(f"{self._url}/v1/warmup")).content)
        assert (report.phase, report.prompt.captured, report.decode.captured) == (Phase.SERVING, 15, 48)
        return seconds

    async def _ready(self, client: httpx.AsyncClient) -> bool:
        assert self.process.poll() is None, "A runtime ended."
        try:
            return (await client.get(f"{self._url}{READYZ_PATH}")).is_success
        except httpx.TransportError:
            return False

    def cpu_seconds(self) -> float:
        """Return the processor time so far, in user and system mode."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


def free_ports(count: int) -> list[tuple[int, int]]:
    """Return pairs of unused ports. Each port stays open until all are found, so that no port occurs twice."""
    with ExitStack() as held:
        ports = []
        for _ in range(2 * count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    return list(zip(ports[::2], ports[1::2], strict=True))


async def measure(folder: Path, count: int) -> list[Figure]:
    """Return all figures of one run."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:
        alone = [await _measure_one(ports, folder, client) for ports in free_ports(ALONE)]
        sims: list[Sim] = []
        try:
            begun = time.monotonic()
            sims += [Sim(ports, folder) for ports in free_ports(count)]
            await asyncio.gather(*(sim.serving(client) for sim in sims))
            together = time.monotonic() - begun
            at_rest = await _cpu_at_rest(sims)
            memory = [sim.process.memory_full_info() for sim in sims]
        finally:
            for sim in sims:
                sim.end()
    own = sum(each.pss for each in memory)
    return [
        Figure("start to serving, alone, p50", percentile(sorted(wall for wall, _ in alone), 50), "s", 1.0),
        Figure("its CPU time, p50", percentile(sorted(cpu for _, cpu in alone), 50), "s", 0.8),
        Figure(f"start to serving, {count} concurrently, the last", together, "s"),
        Figure(f"CPU at rest, all {count}", at_rest, "% of a core"),
        Figure("resident memory of one (RSS), largest", max(each.rss for each in memory) / MIB, "MiB", 64),
        Figure("proportional share of one (PSS), mean", own / count / MIB, "MiB", 48),
        Figure(f"memory of all {count} (PSS)", own / MIB / 1024, "GiB"),
    ]


async def _measure_one(ports: tuple[int, int], folder: Path, client: httpx.AsyncClient) -> tuple[float, float]:
    """Return the seconds until one process serves, and its processor time."""
    sim = Sim(ports, folder)
    try:
        return await sim.serving(client), sim.cpu_seconds()
    finally:
        sim.end()


async def _cpu_at_rest(sims: list[Sim]) -> float:
    """Return the percentage of one core that the processes use over REST_SECONDS without requests."""
    before = sum(sim.cpu_seconds() for sim in sims)
    await asyncio.sleep(REST_SECONDS)
    return 100 * (sum(sim.cpu_seconds() for sim in sims) - before) / REST_SECONDS


def main() -> int:
    """Print the table. Return 1 if a limit was missed."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), count))
    sys.stdout.write(f"{count} sim runtimes on {os.cpu_count()} CPUs\n{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
