"""What happened, as pure data: the objects as a watcher saw them, and the truth about the containers behind them.

Laws are judged on it alone, so the same laws hold for a model of the world and for a real API server.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Pod:
    """A pod as the API server shows it.

    `judged` is the instance that its gate was opened for; with `removed_first` it bears the cost of the next to go. One
    that has `failed` ended as a whole.
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
        """Whether a Service sends requests to it, as far as the pod says."""
        return self.counts and self.ready and self.gate


@dataclass(frozen=True)
class Runtime:
    """What truly runs in a pod: its instance, whether that answers requests, and whether its node can be reached."""

    instance: str
    serving: bool
    reachable: bool = True


@dataclass(frozen=True)
class Child:
    """Another object that carries the resource's label; `owner` is the UID of its controller."""

    kind: str
    name: str
    owner: str | None


@dataclass(frozen=True)
class Moment:
    """The world from `at` (seconds) until the next moment.

    `pods` and `runtimes` are by pod UID, `endpoints` are pod UIDs, `replica_sets` gives desired pods by revision, and
    `failed` names the revisions that are marked as given up. `warm` are the instances that serve with enough captured,
    `hot` those whose requests wait for more compiles than any limit of a story.
    """

    at: float
    resource: Mapping[str, Any]
    pods: Mapping[str, Pod] = field(default_factory=dict)
    endpoints: frozenset[str] = frozenset()
    replica_sets: Mapping[str, int] = field(default_factory=dict)
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
        """The written status; empty before the first."""
        return self.resource.get("status") or {}

    @property
    def counted(self) -> list[Pod]:
        """Pods that count as replicas."""
        return [pod for pod in self.pods.values() if pod.counts]

    def condition(self, kind: str) -> Mapping[str, Any]:
        """The condition of that type; empty where there is none."""
        found = (each for each in self.status.get("conditions", ()) if each["type"] == kind)
        return next(found, {})


@dataclass
class History:
    """`lag` is how old, in seconds, the picture may be that an undisturbed operator acts on.

    `taken` are (time, pod UID) of faults that end or cut off a pod, `blind` spells in which the operator saw
    nothing new or could not write, and `waits` those in which it knew all and did nothing, for it was yet to lead or a
    write had failed. `writes` are the times at which it wrote, and `others` those at which anything else changed.
    `trespasses` are (time, who) of writes by a replica that did not hold the Lease.
    `kubelet` is how long a kubelet needs to see that a container is gone, in seconds. `works` and `fails` name the
    revisions whose pods warm up once they have a card, and those whose pods never do. Without any change for `rest`
    seconds nothing is left to react to.
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
        """Each moment's number, the moment before it, and itself."""
        return ((at, self.moments[at - 1], self.moments[at]) for at in range(1, len(self.moments)))

    def seen_from(self, at: float) -> float:
        """From when on pictures may be that the operator still acts on at `at`."""
        oldest = at - self.lag
        while late := [start for start, stop in self.blind if start - self.lag < oldest <= stop + self.lag]:
            oldest = min(late) - self.lag
        return oldest

    def between(self, first: float, last: float) -> Sequence[Moment]:
        """The world from `first` to `last`; nothing where that is not before."""
        if first >= last:
            return ()
        begin, end = (bisect_right(self.moments, at, key=lambda moment: moment.at) for at in (first, last))
        return self.moments[max(0, begin - 1) : end]

    def pictures(self, number: int) -> Sequence[Moment]:
        """The moments on which the operator may have acted when it made that of `number`, itself among them."""
        oldest = self.seen_from(self.moments[number].at)
        first = bisect_right(self.moments, oldest, key=lambda moment: moment.at) - 1
        return self.moments[max(0, first) : number + 1]

    def reacted_by(self, since: float) -> float:
        """When at the latest the operator has done what it could see to be due at `since`."""
        latest = since + self.lag
        for start, stop in sorted((*self.blind, *self.waits)):
            if start <= latest and stop > since:
                latest = max(latest, stop + self.lag)
        return latest

    def spells(self, found: Callable[[Moment], Iterable[T]]) -> Iterator[tuple[T, float, float]]:
        """What is found in moments that follow each other, each with the time from and the time until it is so."""
        since: dict[T, float] = {}
        for moment in self.moments:
            now = set(found(moment))
            yield from ((each, since.pop(each), moment.at) for each in [*since] if each not in now)
            since |= {each: moment.at for each in now if each not in since}
        yield from ((each, start, self.end) for each, start in since.items())

    @property
    def last(self) -> Moment:
        """How it ended."""
        return self.moments[-1]
