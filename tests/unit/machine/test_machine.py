"""Thousands of random steps of the pure core in a world in memory; `make soak` takes a hundred thousand."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.story import Machine

STORIES, STEPS = 100, 50


def test_no_law_is_broken_whatever_happens() -> None:
    chosen = settings(
        max_examples=STORIES,
        stateful_step_count=STEPS,
        derandomize=True,  # the same stories every time; `make soak` looks for new ones
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(Machine, settings=chosen)
