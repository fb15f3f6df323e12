"""Our operator beside its peers, LeaderWorkerSet and KubeRay: what a resource costs each of them in its life.

    python -m tests.benchmarks.peers [NUMBER [PROGRAM...]]

They run one after the other on the same API server and controllers, and are driven alike, 20 resources a second: NUMBER
of one pod each (200, or GAUDI_BENCH_RESOURCES) come, rest, become ready, change until their new pods are made, meet a
new process of the operator, and go. Requests are counted in the API server's audit log, without watches and Leases;
processor time and memory are those of all processes of an operator. Nobody runs pods: a kubelet of ours tells of them,
alike for all.
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
from tests.benchmarks.peers.asked import Asked
from tests.benchmarks.peers.bars import judged
from tests.benchmarks.peers.programs import LWS, OUR_OPERATOR, RAY, Program, Running, kuberay
from tests.support.addresses import RoomForMany
from tests.support.fake_runtime import FakeRuntime, Runtime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet

PER_SECOND = 20.0
QUIET_SECONDS = 6.0
"""Longer than any of them defers anything."""
REST_SECONDS = 30.0
PATIENCE = 600.0
Phases = dict[str, dict[str, float]]
"""Requests, processor time in ms and memory in MiB, by phase; the first two for each resource."""
PROGRAMS = (OUR_OPERATOR, LWS, RAY)


@dataclass
class Meter:
    """What an operator has used since the last look; `phases` has it by phase."""

    program: Program
    running: Running
    audit: Path
    count: int
    phases: Phases = field(default_factory=dict)
    _read: int = 0
    _asked: Counter[str] = field(default_factory=Counter)
    _before: Counter[str] = field(default_factory=Counter)
    _cpu: float = 0.0

    def begin(self, running: Running) -> None:
        """Another process does the same from now on."""
        self.running, self._cpu = running, 0.0

    async def take(self, phase: str) -> None:
        """Note a phase, once the operator has asked nothing for a while."""
        since, seen = time.monotonic(), self._look().total()
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(0.5)
            if self._look().total() != seen:
                since, seen = time.monotonic(), self._asked.total()
        new, cpu = self._asked - self._before, self.running.cpu_seconds()
        self.phases[phase] = {
            "requests": new.total() / self.count,
            "cpu": 1000 * (cpu - self._cpu) / self.count,
            "memory": self.running.mebibytes(),
        }
        self._before, self._cpu = self._asked.copy(), cpu
        kinds = ", ".join(f"{name} {value / self.count:.2f}" for name, value in new.most_common(12))
        _say(f"{self.program.name} {phase}: {kinds or 'nothing'}")

    def _look(self) -> Counter[str]:
        with self.audit.open("rb") as log:
            log.seek(self._read)
            *lines, rest = log.read().split(b"\n")
            self._read = log.tell() - len(rest)
        mine = f'"username":"{self.program.name}"'.encode()
        self._asked.update(_request(json.loads(line)) for line in lines if mine in line)
        for name in [each for each in self._asked if each.startswith(("watch ", "-"))]:
            del self._asked[name]
        return self._asked


def _request(line: Object) -> str:
    """Verb and resource, as one word begins what does not count."""
    about = line.get("objectRef") or {}
    resource = "/".join(filter(None, (about.get("resource", "other"), about.get("subresource"))))
    code = (line.get("responseStatus") or {}).get("code", 0)
    refused = f" {code}" if code >= httpx.codes.BAD_REQUEST else ""
    return "-" if resource == "leases" else f"{line['verb']} {resource}{refused}"


async def lives(program: Program, plane: ControlPlane, count: int) -> Phases:
    """All phases of one operator."""
    api = KubeApi(plane.addresses.server, plane.run_dir / "pki", program.name)
    asked, names, turns = program.asked, [f"each-{number}" for number in range(count)], _OneAfterTheOther()
    async with Kubelet(api) as kubelet:
        kubelet.make_runtime, kubelet.on_start = turns.runtime, FakeRuntime.warm
        async with Running(program, plane) as running:
            meter = Meter(program, running, plane.run_dir / "audit.log", count)
            await meter.take("idle")
            # The webhook of a manager that is seconds old is not there yet.
            await _wait(partial(_accepted, api, asked.make(names[0])), "the first resource")
            await _paced(names[1:], lambda name: api.create(asked.make(name)))
            await _wait(partial(_pods, api, count), "all pods to be made")
            await meter.take("create")
            await asyncio.sleep(REST_SECONDS)
            await meter.take("rest")
            turns.may_start.set()
            await _wait(partial(_all_ready, api, asked), "all to be ready")
            await meter.take("ready")
            turns.may_start.clear()
            known = {each["metadata"]["uid"] for each in await api.list("Pod")}
            await _paced(names, lambda name: api.merge(asked.kind, name, asked.change))
            await _wait(partial(_new_pods, api, known, count), "all new pods to be made")
            await meter.take("change")
        async with Running(program, plane) as running:
            meter.begin(running)
            await meter.take("start")
            await _paced(names, lambda name: api.delete(asked.kind, name))
            await _wait(partial(_pods, api, 0), "all pods to be gone")
            await meter.take("delete")
    await api.close()
    return meter.phases


class _OneAfterTheOther:
    """Lets containers start at the pace of everything else, while they `may_start`."""

    def __init__(self) -> None:
        self.may_start = asyncio.Event()
        self._turn = asyncio.Lock()

    async def runtime(self, address: str, pod: Object) -> Runtime:
        """That of a pod, in its turn."""
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


async def _all_ready(api: KubeApi, asked: Asked) -> bool:
    return all(asked.ready(each) for each in await api.list(asked.kind))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(count: int, chosen: list[Program]) -> int:
    """Measure all, print the table; 1 when a bar is missed."""
    tools()  # builds, where that was not done yet: nothing can be fetched from inside the namespace
    kuberay()
    enter_network_namespace()
    found: dict[str, Phases] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(Path(folder) / "plane", addresses=RoomForMany(), audited=True) as plane,
    ):
        for program in chosen:
            program.install(plane)
            found[program.name] = asyncio.run(lives(program, plane, count))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    _say(f"\n{platform.machine()}, {os.cpu_count()} cores, {count} resources, load average {load}")
    lines, missed = judged(found, count)
    _say("\n".join(lines))
    return int(missed)


if __name__ == "__main__":
    NUMBER = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ.get("GAUDI_BENCH_RESOURCES", "200"))
    CHOSEN = [each for each in PROGRAMS if not sys.argv[2:] or each.name in sys.argv[2:]]
    sys.exit(main(NUMBER, CHOSEN))
