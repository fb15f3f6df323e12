"""One container instance of a simulated runtime. It warms up second by second and reports the progress."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gaudi_runtime.contract.report import (
    Phase,
    PhaseProgressReport,
    RequestCountsReport,
    RuntimeFailureReport,
    WarmupReport,
)

PLANNED = 8
HOT_SECONDS = 60
"""The seconds for which requests of a COLD revision wait for compiles."""
BEHAVIOUR = "BEHAVIOUR"
"""The container's environment variable for the behaviour of the runtime, such as "good-b"."""
_STORY = (
    (3, Phase.LOADING, 0, 0),
    (8, Phase.COMPILING, 0, 0),
    (14, Phase.COMPILING, 4, 0),
    (17, Phase.CAPTURING, 8, 0),
    (20, Phase.SERVING, 8, 8),
)
"""(age in seconds, phase from this age on, warmed buckets of each phase, captured buckets of each phase)."""


class Behaviour(StrEnum):
    """The behaviour of a revision's pods: good, or with a fault in the model or in the plan."""

    GOOD = "good"
    SLOW = "slow"
    STALL = "stall"
    CRASH = "crash"
    OUT_OF_MEMORY = "oom"
    SHORT = "short"
    BROKEN = "broken"
    COLD = "cold"


WORKS = frozenset({Behaviour.GOOD, Behaviour.SLOW})
FAILS = frozenset(Behaviour) - WORKS - {Behaviour.COLD}
"""The behaviours of pods that never recover. COLD pods serve, and only the observation of a canary finds the fault."""


def behaviour(template: Mapping[str, Any]) -> Behaviour:
    """Return the behaviour of a template's pods. A variable of the container selects the behaviour."""
    variables = {each["name"]: each.get("value") for each in template["spec"]["containers"][0]["env"]}
    return Behaviour(str(variables.get(BEHAVIOUR, "good")).split("-")[0])


@dataclass(frozen=True)
class Exit:
    """The termination of a container."""

    reason: str
    code: int


_ENDS = {
    Behaviour.CRASH: (8, Exit("Error", 139)),
    Behaviour.OUT_OF_MEMORY: (3, Exit("OOMKilled", 137)),
}


@dataclass
class Instance:
    """One process of the runtime.

    `born` is its start in simulated seconds. `load` is the number of running requests.
    """

    name: str
    behaviour: Behaviour
    plan_hash: str
    born: int
    load: int = 0

    def __post_init__(self) -> None:
        """Set the state of the first second."""
        self.stage, self.moved_at = -1, self.born

    def advance(self, now: int) -> Exit | None:
        """Run until `now`. Return the termination of the process, or None if the process still runs."""
        age = now - self.born
        if self.behaviour in _ENDS and age >= _ENDS[self.behaviour][0]:
            return _ENDS[self.behaviour][1]
        pace = 3 if self.behaviour is Behaviour.SLOW else 1
        reached = sum(age >= start * pace for start, *_ in _STORY) - 1
        most = 1 if self.behaviour is Behaviour.STALL else len(_STORY) - 1
        if min(reached, most) > self.stage:
            self.stage, self.moved_at = min(reached, most), now
        return None

    @property
    def phase(self) -> Phase:
        """The current phase."""
        if self.behaviour is Behaviour.BROKEN and self.stage >= 1:
            return Phase.FAILED
        return _STORY[self.stage][1] if self.stage >= 0 else Phase.STARTING

    @property
    def serving(self) -> bool:
        """Whether the model port is open."""
        return self.phase is Phase.SERVING

    @property
    def warm(self) -> bool:
        """Whether the process serves with enough captured graphs."""
        return self.serving and self.behaviour is not Behaviour.SHORT

    def hot(self, now: int) -> bool:
        """Return True if requests to the process wait for compilations."""
        return self.behaviour is Behaviour.COLD and self.serving and now < self.moved_at + HOT_SECONDS

    def sequence(self, now: int) -> int:
        """Return the sequence number of the report at `now`. The number grows with every change."""
        return self.stage + 2 + (self.serving and not self.hot(now))

    def report(self, now: int) -> WarmupReport:
        """Return the report of the process at `now`."""
        warmed, captured = _STORY[self.stage][2:] if self.stage >= 0 else (0, 0)
        if self.behaviour is Behaviour.SHORT:
            captured //= 2
        progress = PhaseProgressReport(planned=PLANNED, warmed=warmed, captured=captured)
        broken = RuntimeFailureReport(reason="ModelUnreadable", message="The model's weights cannot be read.")
        return WarmupReport(
            instance=self.name,
            sequence=self.sequence(now),
            plan_hash=self.plan_hash,
            phase=self.phase,
            prompt=progress,
            decode=progress,
            since_progress_seconds=now - self.moved_at,
            recompiles_since_ready=50 if self.serving and self.behaviour is Behaviour.COLD else 0,
            recent_recompiles=50 if self.hot(now) else 0,
            requests=RequestCountsReport(running=self.load if self.serving else 0),
            failure=broken if self.phase is Phase.FAILED else None,
        )
