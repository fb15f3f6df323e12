"""Thousands of random steps of the operator in a world in memory; `make soak` takes a hundred thousand."""

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.world.story import Machine

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
