"""Random runs of the simulation. hypothesis chooses the commands, and the laws check the whole record."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.laws.laws import broken
from tests.world.actions import ACTIONS, Action, runs
from tests.world.commands import PassTime
from tests.world.world import World

T = TypeVar("T")
PAUSES = (0, 1, 4, 15, 40)
"""The possible seconds between two commands, from less than a reconcile to more than a rollout."""


class Story(RuleBasedStateMachine):
    """A random run with two replicas of the operator. `totals` contains counts over all runs.

    `violations` contains the runs that broke a law. The class needs this list, because hypothesis does not report a run
    that it abandoned as too long.
    """

    totals: ClassVar[Counter[str]] = Counter()
    violations: ClassVar[list[str]] = []
    world: World

    def __init__(self) -> None:
        """Start with an empty list of commands."""
        super().__init__()
        self._happened: list[str] = []

    @initialize(first=st.sampled_from(("good", "cold")))
    def begin(self, first: str) -> None:
        """Create the resource. The gate of a pod closes while requests to the pod wait for compilations."""
        self._happened.append(first)
        readiness, warmup = {"onRecompiles": "CloseGate"}, {"stallTimeoutSeconds": 60}
        rollout = {"surgeTimeoutSeconds": 30, "obstacleDeadlineSeconds": 60}
        self.world = World(replicas=2, readiness=readiness, warmup=warmup, rollout=rollout, **runs(first))

    def happen(self, action: Action, data: st.DataObject) -> None:
        """Run one command, and let some time pass."""

        def choose(options: Sequence[T]) -> T:
            return data.draw(st.sampled_from(options))

        command = action(self.world, choose)
        if command is not None:
            self._happened.append(f"{self.world.now} s: {command}")
            note(self._happened[-1])
            self.world.do(command)
        self.world.do(PassTime(choose(PAUSES)))
        self.totals["steps"] += 1

    def teardown(self) -> None:
        """Stop all faults and check every law on the whole record."""
        with self.world:
            self.world.settle()
        found = [*broken(self.world.history), *self.world.defects]
        self.totals["stories"] += 1
        self.totals["seconds"] += self.world.now
        self.totals["moments"] += len(self.world.history.moments)
        self.totals["violations"] += len(found)
        if found:
            self.violations.append("\n".join((*self._happened, *found)))
        assert not found, "\n".join(found)


def _rule(action: Action) -> Callable[..., None]:
    def happen(self: Story, data: st.DataObject) -> None:
        self.happen(action, data)

    happen.__name__ = happen.__qualname__ = action.__name__
    return rule(data=st.data())(happen)


_rules: dict[str, Any] = {action.__name__: _rule(action) for action in ACTIONS}
Machine = type("Machine", (Story,), {**_rules, "__doc__": "Every action is a rule."})
