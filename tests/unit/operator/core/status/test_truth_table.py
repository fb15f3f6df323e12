"""Every situation of up to three replicas has the conditions of the truth table and consistent messages."""

import pytest

from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.status.truth_table import (
    DEADLINE_SECONDS,
    UNSCHEDULED_SECONDS,
    Facts,
    Slot,
    causes,
    facts_of,
    filled,
    slots,
    started,
    wrong,
)
from tests.unit.operator.core.stories import served

STARTS = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 2), (3, 3)]
SMALL = [each for each in STARTS if each[0] < 3]


@pytest.mark.parametrize(
    ("wanted", "before", "waited"),
    [(*each, 0) for each in STARTS]
    + [(*each, waited) for each in SMALL for waited in (UNSCHEDULED_SECONDS, DEADLINE_SECONDS)],
)
def test_conditions_of_replicas_equal_the_truth_table(wanted: int, before: int, waited: int) -> None:
    start = started(wanted, before)
    for found in slots(wanted, before):
        cluster = filled(start, found, waited=waited)
        expected = [_facts(cluster, before, *each) for each in causes(found, waited) or [("", False)]]
        # Two pods may have problems of the same rank, but the condition shows only one problem. So accept each possible
        # cause.
        assert [] in [wrong(cluster, facts) for facts in expected], (found, wrong(cluster, expected[0]))


@pytest.mark.parametrize(("wanted", "before"), SMALL)
def test_conditions_of_a_refused_spec_equal_the_truth_table(wanted: int, before: int) -> None:
    start = started(wanted, before)
    for found in slots(wanted, before):
        cluster = filled(start, found, refused=True)
        assert wrong(cluster, _facts(cluster, before, "SettingsWrong", True)) == [], found


@pytest.mark.parametrize(("wanted", "before"), SMALL)
def test_conditions_of_pods_below_thresholds_equal_the_truth_table(wanted: int, before: int) -> None:
    start = started(wanted, before, readiness={"onShortfall": "ServeAndWarn"})
    for found in slots(wanted, before):
        if Slot.BELOW in found:
            cluster = filled(start, found)
            (cause,) = causes(found, 0, blocks=False)[:1] or [("", False)]
            facts = _facts(cluster, before, *cause)
            assert facts.below == found.count(Slot.BELOW)
            assert wrong(cluster, facts) == [], found


def _facts(cluster: Cluster, before: int, cause: str, lasting: bool) -> Facts:
    return facts_of(cluster, lambda serving: max(before, serving), cause=cause, lasting=lasting)


@pytest.mark.parametrize("ended", [False, True], ids=["ending", "ended"])
def test_conditions_of_zero_replicas_equal_the_truth_table(ended: bool) -> None:
    cluster = served(replicas=2)
    cluster.change(replicas=0)
    cluster.operate()
    if ended:
        cluster.controllers()
        cluster.controllers()
    cluster.operate()
    facts = facts_of(cluster, lambda _: 0)
    assert facts.left == (0 if ended else 2)
    assert wrong(cluster, facts) == []
