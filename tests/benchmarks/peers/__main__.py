"""Compare the cost of a resource in our operator with LeaderWorkerSet and KubeRay.

    python -m tests.benchmarks.peers [NUMBER [PROGRAM...]]

The operators run one after the other on the same API server and controllers, with the same load of 20 resources a
second. NUMBER resources of one pod each (200, or GAUDI_BENCH_RESOURCES) go through these phases: they are created,
rest, become ready, change until their new pods are created, exist while a new process of the operator starts, and are
deleted.

Requests are counted in the API server's audit log, without watches and Leases. Processor time and memory include all
processes of an operator. No pod runs: a scripted kubelet reports the status of the pods of all operators in the same
way.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from localcluster import ControlPlane, enter_network_namespace, tools
from tests.benchmarks.peers.bars import compare
from tests.benchmarks.peers.programs import LWS, OUR_OPERATOR, RAY, Program, Running, kuberay
from tests.benchmarks.peers.workloads import Workload
from tests.support.addresses import RoomForMany
from tests.support.fake_runtime import FakeRuntime, Runtime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet

PER_SECOND = 20.0
QUIET_SECONDS = 6.0
"""Longer than any delay of these operators."""
REST_SECONDS = 30.0
PATIENCE = 600.0
Phases = dict[str, dict[str, float]]
"""Requests, processor time in ms and memory in MiB, by phase. The first two are per resource."""
PROGRAMS = (OUR_OPERATOR, LWS, RAY)


@dataclass
class Meter:
    """Measures an operator's usage since the last measurement. `phases` contains the usage by phase."""

    program: Program
    running: Running
    audit: Path
    count: int
    phases: Phases = field(default_factory=dict)
    _read: int = 0
    _requests: Counter[str] = field(default_factory=Counter)
    _before: Counter[str] = field(default_factory=Counter)
    _cpu: float = 0.0

    def begin(self, running: Running) -> None:
        """Continue with a new process of the operator."""
        self.running, self._cpu = running, 0.0

    async def take(self, phase: str) -> None:
        """Record a phase after the operator has sent no request for a while."""
        since, seen = time.monotonic(), self._read_audit_log().total()
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(0.5)
            if self._read_audit_log().total() != seen:
                since, seen = time.monotonic(), self._requests.total()
        new, cpu = self._requests - self._before, self.running.cpu_seconds()
        self.phases[phase] = {
            "requests": new.total() / self.count,
            "cpu": 1000 * (cpu - self._cpu) / self.count,
            "memory": self.running.mebibytes(),
        }
        self._before, self._cpu = self._requests.copy(), cpu
        kinds = ", ".join(f"{name} {value / self.count:.2f}" for name, value in new.most_common(12))
        _print(f"{self.program.name} {phase}: {kinds or 'nothing'}")

    def _read_audit_log(self) -> Counter[str]:
        with self.audit.open("rb") as log:
            log.seek(self._read)
            *lines, rest = log.read().split(b"\n")
            self._read = log.tell() - len(rest)
        mine = f'"username":"{self.program.name}"'.encode()
        self._requests.update(_request(json.loads(line)) for line in lines if mine in line)
        for name in [each for each in self._requests if each.startswith(("watch ", "-"))]:
            del self._requests[name]
        return self._requests


def _request(line: Object) -> str:
    """Return the verb and resource of a request, or "-" if the request does not count."""
    about = line.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource", "other"), about.get("subresource"))))
    code = (line.get("responseStatus") or {}).get("code", 0)
    refused = f" {code}" if code >= httpx.codes.BAD_REQUEST else ""
    return "-" if resource == "leases" else f"{line['verb']} {resource}{refused}"


async def measure_phases(program: Program, plane: ControlPlane, count: int) -> Phases:
    """Run and measure all phases of one operator."""
    api = KubeApi(plane.addresses.server, plane.run_dir / "pki", program.name)
    workload, names, turns = program.workload, [f"each-{number}" for number in range(count)], _PacedStarts()
    async with Kubelet(api) as kubelet:
        kubelet.make_runtime, kubelet.on_start = turns.runtime, FakeRuntime.warm
        async with Running(program, plane) as running:
            meter = Meter(program, running, plane.run_dir / "audit.log", count)
            await meter.take("idle")
            # Retry the first create, because the webhook of a new manager may not listen yet.
            await _wait(partial(_accepted, api, workload.make(names[0])), "the first resource")
            await _paced(names[1:], lambda name: api.create(workload.make(name)))
            await _wait(partial(_pods, api, count), "all pods to be created")
            await meter.take("create")
            await asyncio.sleep(REST_SECONDS)
            await meter.take("rest")
            turns.may_start.set()
            await _wait(partial(_all_ready, api, workload), "all to be ready")
            await meter.take("ready")
            turns.may_start.clear()
            known = {each["metadata"]["uid"] for each in await api.list("Pod")}
            await _paced(names, lambda name: api.merge(workload.kind, name, workload.change))
            await _wait(partial(_new_pods, api, known, count), "all new pods to be created")
            await meter.take("change")
        async with Running(program, plane) as running:
            meter.begin(running)
            await meter.take("start")
            await _paced(names, lambda name: api.delete(workload.kind, name))
            await _wait(partial(_pods, api, 0), "all pods to be gone")
            await meter.take("delete")
    await api.close()
    return meter.phases


class _PacedStarts:
    """Starts containers at the common rate, while `may_start` is set."""

    def __init__(self) -> None:
        self.may_start = asyncio.Event()
        self._turn = asyncio.Lock()

    async def runtime(self, address: str, pod: Object) -> Runtime:
        """Return the container of a pod after the time of its start."""
        await self.may_start.wait()
        async with self._turn:
            await asyncio.sleep(1 / PER_SECOND)
        annotations = pod["metadata"].get("annotations") or {}
        return FakeRuntime(address, annotations.get(PLAN_HASH_ANNOTATION, "0" * 64))


async def _accepted(api: KubeApi, manifest: Object) -> bool:
    name = manifest["metadata"]["name"]
    try:
        return bool(await api.get(manifest["kind"], name) or await api.create(manifest))
    except httpx.HTTPStatusError:
        return False


async def _paced(names: Iterable[str], act: Callable[[str], Awaitable[object]]) -> None:
    began = time.monotonic()
    for number, name in enumerate(names):
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        await act(name)


async def _wait(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    await until(condition, what, seconds=PATIENCE, every=1.0)


async def _pods(api: KubeApi, count: int) -> bool:
    return len(await api.list("Pod")) == count


async def _new_pods(api: KubeApi, known: set[str], count: int) -> bool:
    return len([each for each in await api.list("Pod") if each["metadata"]["uid"] not in known]) == count


async def _all_ready(api: KubeApi, workload: Workload) -> bool:
    return all(workload.ready(each) for each in await api.list(workload.kind))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(count: int, chosen: list[Program]) -> int:
    """Measure all programs and print the table. Return 1 if a limit is missed."""
    tools()  # builds the tools if needed: inside the namespace nothing can be downloaded
    kuberay()
    enter_network_namespace()
    found: dict[str, Phases] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(Path(folder) / "plane", addresses=RoomForMany(), audited=True) as plane,
    ):
        for program in chosen:
            program.install(plane)
            found[program.name] = asyncio.run(measure_phases(program, plane, count))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    _print(f"\n{platform.machine()}, {os.cpu_count()} cores, {count} resources, load average {load}")
    lines, missed = compare(found, count)
    _print("\n".join(lines))
    return int(missed)


if __name__ == "__main__":
    NUMBER = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ.get("GAUDI_BENCH_RESOURCES", "200"))
    CHOSEN = [each for each in PROGRAMS if not sys.argv[2:] or each.name in sys.argv[2:]]
    sys.exit(main(NUMBER, CHOSEN))
