"""The recorded history to which laws apply: the objects of a watch, and the actual state of the containers.

Laws use only this data, so the same laws apply to a simulation in memory and to a real API server.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Pod:
    """A pod as stored by the API server.

    `judged` is the container instance for which the gate was opened. A pod with `removed_first` has the lowest deletion
    cost. A pod with `failed` has the phase Failed.
    """

    name: str
    uid: str
    revision: str
    counts: bool
    ready: bool
    gate: bool
    judged: str | None = None
    removed_first: bool = False
    failed: bool = False

    @property
    def serves(self) -> bool:
        """Whether a Service sends requests to the pod, by its conditions."""
        return self.counts and self.ready and self.gate


@dataclass(frozen=True)
class Runtime:
    """The actual state of a pod's container: its instance, whether it serves, and whether its node is reachable."""

    instance: str
    serving: bool
    reachable: bool = True


@dataclass(frozen=True)
class Child:
    """Another object with the resource's label. `owner` is the UID of its controller."""

    kind: str
    name: str
    owner: str | None


@dataclass(frozen=True)
class Moment:
    """The state of all objects from `at` (seconds) until the next moment.

    `pods` and `runtimes` are indexed by pod UID. `endpoints` contains pod UIDs. `replica_sets` contains the number of
    desired pods by revision, and `delayed` is the number of other pods that come back when back-offs end. `failed`
    contains the revisions that are marked as failed. `warm` contains the instances that serve with enough captured
    graphs. `hot` contains the instances whose requests wait for more compiles than any limit in a test.
    """

    at: float
    resource: Mapping[str, Any]
    pods: Mapping[str, Pod] = field(default_factory=dict)
    endpoints: frozenset[str] = frozenset()
    replica_sets: Mapping[str, int] = field(default_factory=dict)
    delayed: int = 0
    failed: frozenset[str] = frozenset()
    children: tuple[Child, ...] = ()
    runtimes: Mapping[str, Runtime] = field(default_factory=dict)
    warm: frozenset[str] = frozenset()
    hot: frozenset[str] = frozenset()

    @property
    def spec(self) -> Mapping[str, Any]:
        """The desired state."""
        return self.resource["spec"]  # type: ignore[no-any-return]

    @property
    def status(self) -> Mapping[str, Any]:
        """The written status, empty before the first write."""
        return self.resource.get("status") or {}

    @property
    def counted(self) -> list[Pod]:
        """The pods that count as replicas."""
        return [pod for pod in self.pods.values() if pod.counts]

    @property
    def is_refused(self) -> bool:
        """Whether the operator refuses the spec, or has not judged it yet. The pods then stay as they are."""
        accepted = self.condition("PlanAccepted")
        return accepted.get("status") != "True" and accepted.get("reason") != "CapturedBelowThreshold"

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return the condition of that type, or an empty mapping if there is none."""
        found = (each for each in self.status.get("conditions", ()) if each["type"] == kind)
        return next(found, {})


@dataclass
class History:
    """The record of a run. All times are in seconds.

    `lag` is the maximum age of the snapshot on which an undisturbed operator acts. `taken` contains (time, pod UID) of
    each fault that ends or disconnects a pod. `blind` contains the intervals in which the operator received no events
    or could not write. `waits` contains the intervals in which the operator was up to date and did nothing, because it
    was not the leader yet or a write had failed.

    `writes` contains the times of the operator's writes. `others` contains the times of all other changes. `trespasses`
    contains (time, replica) of each write by a replica that did not hold the Lease. A kubelet notices within `kubelet`
    seconds that a container has ended. The pods of the revisions in `works` warm up after they get a card. The pods of
    the revisions in `fails` never warm up. After `rest` seconds without a change, no reaction is pending.
    """

    lag: float
    kubelet: float
    moments: list[Moment] = field(default_factory=list)
    taken: list[tuple[float, str]] = field(default_factory=list)
    blind: list[tuple[float, float]] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    trespasses: list[tuple[float, str]] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    works: frozenset[str] = frozenset()
    fails: frozenset[str] = frozenset()
    rest: float = 60.0
    end: float = 0.0

    def steps(self) -> Iterator[tuple[int, Moment, Moment]]:
        """Yield, for each moment, its index, the previous moment, and the moment."""
        return ((at, self.moments[at - 1], self.moments[at]) for at in range(1, len(self.moments)))

    def seen_from(self, at: float) -> float:
        """Return the time of the oldest snapshot on which the operator may act at the time `at`."""
        oldest = at - self.lag
        while late := [start for start, stop in self.blind if start - self.lag < oldest <= stop + self.lag]:
            oldest = min(late) - self.lag
        return oldest

    def between(self, first: float, last: float) -> Sequence[Moment]:
        """Return the moments from `first` to `last`, or an empty sequence if `last` is not later than `first`."""
        if first >= last:
            return ()
        begin, end = (bisect_right(self.moments, at, key=lambda moment: moment.at) for at in (first, last))
        return self.moments[max(0, begin - 1) : end]

    def pictures(self, number: int) -> Sequence[Moment]:
        """Return the moments on which the operator may have acted when it caused moment `number`, including this."""
        oldest = self.seen_from(self.moments[number].at)
        first = bisect_right(self.moments, oldest, key=lambda moment: moment.at) - 1
        return self.moments[max(0, first) : number + 1]

    def reacted_by(self, since: float) -> float:
        """Return the latest time at which the operator must have reacted to a change at `since`."""
        latest = since + self.lag
        for start, stop in sorted((*self.blind, *self.waits)):
            if start <= latest and stop > since:
                latest = max(latest, stop + self.lag)
        return latest

    def spells(self, found: Callable[[Moment], Iterable[T]]) -> Iterator[tuple[T, float, float]]:
        """Yield each item that `found` returns for consecutive moments, with the start and the end of this interval."""
        since: dict[T, float] = {}
        for moment in self.moments:
            now = set(found(moment))
            yield from ((each, since.pop(each), moment.at) for each in [*since] if each not in now)
            since |= {each: moment.at for each in now if each not in since}
        yield from ((each, start, self.end) for each, start in since.items())

    @property
    def last(self) -> Moment:
        """The final moment."""
        return self.moments[-1]
