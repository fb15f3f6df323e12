"""A record of a namespace: all object versions, from one watch per kind, and the actual state of the containers."""

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
class _ActualState:
    """The actual state of the containers at a time. `hot` contains the instances with recent recompilations."""

    at: float
    runtimes: dict[str, Runtime]
    warm: frozenset[str]
    hot: frozenset[str]


@dataclass
class Recorder:
    """A watcher of a namespace, used as an async context manager. `name` is the name of the resource.

    The watches of different kinds are not synchronized. The resource versions give the global order, because one etcd
    assigns all resource versions.
    """

    api: KubeApi
    name: str
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    _events: dict[int, tuple[float, bool, Object]] = field(default_factory=dict)
    _truths: list[_ActualState] = field(default_factory=list)
    _watches: Background = field(default_factory=Background)

    async def __aenter__(self) -> Self:
        """Start the watches."""
        self._started = time.monotonic()
        for kind in KINDS:
            self._watches.spawn(self._watch(kind))
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Stop the watches. Raise the error that ended a watch."""
        await self._watches.stop()
        if error is None:
            self._watches.check()

    def now(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def last_event(self) -> float:
        """Return the time of the last change of an object."""
        return max((at for at, _, _ in self._events.values()), default=0.0)

    def record(self, runtimes: dict[str, Runtime], warm: frozenset[str], hot: frozenset[str]) -> None:
        """Record the actual state of the containers."""
        self._truths.append(_ActualState(self.now(), runtimes, warm, hot))

    def fill(self, history: History) -> None:
        """Write all recorded moments and the end time into a history."""
        history.moments = list(self._moments())
        history.end = self.now()

    async def _watch(self, kind: str) -> None:
        """Record every change of a kind. If the watch ends, it is restarted. Known versions are not recorded twice."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async for event in self.api.watch(kind):
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self._record_version(event["type"] == "DELETED", {"kind": kind, **event["object"]})
            await asyncio.sleep(0.1)

    def _record_version(self, gone: bool, manifest: Object) -> None:
        key = manifest["kind"], manifest["metadata"]["name"]
        self._events.setdefault(int(manifest["metadata"]["resourceVersion"]), (self.now(), gone, manifest))
        if gone:
            self.objects.pop(key, None)
        else:
            self.objects[key] = manifest

    def _moments(self) -> Iterator[Moment]:
        objects: dict[tuple[str, str], Object] = {}
        truth = _ActualState(0.0, {}, frozenset(), frozenset())
        for at, change in self._in_order():
            truth = change(objects) or truth
            resource = objects.get(("GaudiInference", self.name))
            if resource:
                yield _moment(at, resource, objects, truth)

    def _in_order(self) -> Iterator[tuple[float, Callable[[dict[tuple[str, str], Object]], _ActualState | None]]]:
        """Yield all changes in the order of their resource versions. The actual states are inserted by time."""
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


def _moment(at: float, resource: Object, objects: dict[tuple[str, str], Object], truth: _ActualState) -> Moment:
    pods = {name: pod for (kind, name), pod in objects.items() if kind == "Pod"}
    taking = [pod["metadata"]["uid"] for pod in pods.values() if _takes_traffic(pod)]
    runtimes = {pods[name]["metadata"]["uid"]: each for name, each in truth.runtimes.items() if name in pods}
    ours = [each for (kind, _), each in objects.items() if kind != "GaudiInference" and _is_ours(each)]
    return moment(at, resource, ours, taking, runtimes, truth.warm, truth.hot)


def _takes_traffic(pod: Object) -> bool:
    """Return whether an endpoint slice would contain the pod."""
    return condition(pod, "Ready").get("status") == "True" and not ending(pod)


def _is_ours(manifest: Object) -> bool:
    return "inference.gaudi.dev/name" in (manifest["metadata"].get("labels") or {})
