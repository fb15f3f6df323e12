"""The watch record of a namespace: every version of every object by a watcher of its own, and the truth beside it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

import httpx

from tests.laws.history import History, Moment, Runtime
from tests.laws.reading import moment
from tests.support.background import Background
from tests.support.kube_api import CHILDREN, KubeApi, Object
from tests.world.api import condition, ending

KINDS = ("GaudiInference", "Pod", *CHILDREN)


@dataclass(frozen=True)
class _Truth:
    """What ran at that time: runtimes by pod name, the instances that serve with enough captured, and the hot ones."""

    at: float
    runtimes: dict[str, Runtime]
    warm: frozenset[str]
    hot: frozenset[str]


@dataclass
class Recorder:
    """Watches until it is left; use as an async context manager. `name` is the resource's.

    Watches of several kinds are not in step, but versions are of one etcd: they tell the order in which things were.
    """

    api: KubeApi
    name: str
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    _events: dict[int, tuple[float, bool, Object]] = field(default_factory=dict)
    _truths: list[_Truth] = field(default_factory=list)
    _watches: Background = field(default_factory=Background)

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        self._started = time.monotonic()
        for kind in KINDS:
            self._watches.spawn(self._watch(kind))
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Watch no more; raises what ended a watch."""
        await self._watches.stop()
        if error is None:
            self._watches.check()

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    def last_event(self) -> float:
        """When the last object changed."""
        return max((at for at, _, _ in self._events.values()), default=0.0)

    def tell(self, runtimes: dict[str, Runtime], warm: frozenset[str], hot: frozenset[str]) -> None:
        """The truth has changed."""
        self._truths.append(_Truth(self.now(), runtimes, warm, hot))

    def fill(self, history: History) -> None:
        """Put all moments so far into a history."""
        history.moments = list(self._moments())
        history.end = self.now()

    async def _watch(self, kind: str) -> None:
        """Every change of a kind; a watch that ends is begun again, and repeats nothing that is known."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async for event in self.api.watch(kind):
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self._see(event["type"] == "DELETED", {"kind": kind, **event["object"]})
            await asyncio.sleep(0.1)

    def _see(self, gone: bool, manifest: Object) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        self._events.setdefault(int(manifest["metadata"]["resourceVersion"]), (self.now(), gone, manifest))
        if gone:
            self.objects.pop(key, None)
        else:
            self.objects[key] = manifest

    def _moments(self) -> Iterator[Moment]:
        objects: dict[tuple[str, str], Object] = {}
        truth = _Truth(0.0, {}, frozenset(), frozenset())
        for at, change in self._in_order():
            truth = change(objects) or truth
            resource = objects.get(("GaudiInference", self.name))
            if resource:
                yield _moment(at, resource, objects, truth)

    def _in_order(self) -> Iterator[tuple[float, Callable[[dict[tuple[str, str], Object]], _Truth | None]]]:
        """Changes of objects in the order of their versions, and the truth by the clock between them."""
        events = []
        latest = 0.0
        for _, (at, gone, manifest) in sorted(self._events.items()):
            latest = max(latest, at)
            events.append((latest, _change(gone, manifest)))
        truths = [(truth.at, lambda _, truth=truth: truth) for truth in self._truths]
        return iter(sorted([*truths, *events], key=lambda each: each[0]))


def _change(gone: bool, manifest: Object) -> Callable[[dict[tuple[str, str], Object]], None]:
    key = manifest["kind"], manifest["metadata"]["name"]

    def change(objects: dict[tuple[str, str], Object]) -> None:
        if gone:
            objects.pop(key, None)
        else:
            objects[key] = manifest

    return change


def _moment(at: float, resource: Object, objects: dict[tuple[str, str], Object], truth: _Truth) -> Moment:
    pods = {name: pod for (kind, name), pod in objects.items() if kind == "Pod"}
    taking = [pod["metadata"]["uid"] for pod in pods.values() if _takes_traffic(pod)]
    runtimes = {pods[name]["metadata"]["uid"]: each for name, each in truth.runtimes.items() if name in pods}
    ours = [each for (kind, _), each in objects.items() if kind != "GaudiInference" and _is_ours(each)]
    return moment(at, resource, ours, taking, runtimes, truth.warm, truth.hot)


def _takes_traffic(pod: Object) -> bool:
    """What an endpoint slice would hold."""
    return condition(pod, "Ready").get("status") == "True" and not ending(pod)


def _is_ours(manifest: Object) -> bool:
    return "inference.gaudi.dev/name" in (manifest["metadata"].get("labels") or {})
