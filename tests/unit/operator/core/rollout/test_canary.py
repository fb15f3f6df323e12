"""How long a pod must stay ready before its revision has passed its trial."""

from datetime import timedelta

import pytest

from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.revision_choice import has_held_gate, is_on_trial
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import NOW
from tests.unit.operator.core.states import closed, serving, warming

OLD = serving("o", "old")


def held(seconds: int) -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    conditions = (gate_condition(True, since=since), condition("Ready", True))
    return view(pod("n", revision="new", conditions=conditions))


@pytest.mark.parametrize(
    ("pods", "observe", "trial"),
    [
        ([OLD], 0, True),
        ([OLD, warming()], 0, True),
        ([OLD, closed()], 0, True),
        ([OLD, held(0)], 0, False),
        ([OLD, held(0)], 1, True),
        ([OLD, held(59)], 60, True),
        ([OLD, held(60)], 60, False),
        ([OLD, held(60), warming()], 60, False),
        ([warming("o", "old")], 0, False),
        ([], 0, False),
    ],
)
def test_trial_lasts_until_a_pod_stayed_ready_long_enough(pods: list[PodView], observe: int, trial: bool) -> None:
    assert is_on_trial("new", "old", pods, observe, Deadlines(NOW)) is trial


def test_previously_rolled_out_revision_is_not_on_trial() -> None:
    assert not is_on_trial("new", "new", [OLD], 60, Deadlines(NOW))


def test_closed_gate_restarts_the_trial() -> None:
    assert not has_held_gate(closed(), 5, Deadlines(NOW))
    assert not has_held_gate(held(4), 5, Deadlines(NOW))
    assert has_held_gate(held(5), 5, Deadlines(NOW))
