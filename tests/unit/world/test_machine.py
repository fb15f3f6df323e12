"""Thousands of random steps of the operator in a world in memory, and stories that once broke a law.

`make soak` takes a hundred thousand steps.
"""

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.laws.laws import broken
from tests.world import commands
from tests.world.actions import runs
from tests.world.story import Machine
from tests.world.world import World

BATCHES, STORIES, STEPS = 4, 20, 50


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_law_is_broken_whatever_happens(batch: int) -> None:
    chosen = settings(
        max_examples=STORIES,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    # The same stories every time; `make soak` looks for new ones.
    run_state_machine_as_test(seed(batch)(Machine), settings=chosen)
    assert Machine.violations == []


def test_no_gate_closes_while_another_pod_may_go() -> None:
    """Of two pods one has to go, as a new leader begins; one compiles, and the other's node is lost."""
    with World(replicas=2, readiness={"onRecompiles": "CloseGate"}, **runs("cold")) as world:
        world.do(commands.PassTime(40))
        for each in (
            commands.KillOperator(),
            commands.LoseNode("node-b"),
            commands.ChangeSpec({"replicas": 1}),
            commands.PassTime(15),
        ):
            world.do(each)
        world.settle()
        assert broken(world.history) == []
