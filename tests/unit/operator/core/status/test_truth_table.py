"""Every situation of up to three replicas has the conditions of the truth table, and its sentences agree."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import copied
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.status.truth_table import (
    BY_PROBLEM,
    BY_READY,
    TABLE,
    Facts,
    Slot,
    expected_of,
    facts_of,
    filled,
    place,
    seen,
    slots,
    started,
)
from tests.unit.operator.core.stories import served

PAGE = (Path(__file__).parents[5] / "docs" / "reference" / "conditions.md").read_text()
NEW = (Slot.GATED, Slot.UNSCHEDULED, Slot.PULLING, Slot.WARMING, Slot.SERVING, Slot.MISSING)


def wrong(cluster: Cluster, facts: Facts, problem: str) -> list[str]:
    """Return the conditions that differ from the table, and the sentences that contradict others."""
    status = cluster.resource["status"]
    shown = {each["type"]: each for each in status["conditions"]}
    found = list(violations(cluster.resource))
    for kind in ("Available", "Degraded", "Ready", "Stalled", "Reconciling"):
        result, reason = expected_of(kind, facts)
        reason = {BY_PROBLEM: problem, BY_READY: shown["Ready"]["reason"]}.get(reason, reason)
        if (shown[kind]["status"], shown[kind]["reason"]) != (result, reason):
            found.append(f"{kind} is {shown[kind]['status']} {shown[kind]['reason']}, by the table {result} {reason}")
    return [*found, *contradictions(status, shown, facts)]


def contradictions(status: dict[str, Any], shown: dict[str, Any], facts: Facts) -> list[str]:
    """Numbers that sentences state and that are not those of the pods, and words that deny another condition."""
    numbers = {
        ("Ready", r"(\d+) of \d+ replicas serve revision"): facts.serving_new,
        ("Ready", r"\d+ of (\d+) replicas serve revision"): facts.wanted,
        ("Ready", r"(\d+) of \d+ replicas serve in all"): facts.serving,
        ("Ready", r", (\d+) left\."): facts.old,
        ("Ready", r"(\d+) pods? (?:is|are) still to be made"): facts.wanted - facts.made,
        ("Available", r"(\d+) pods? takes? traffic"): facts.serving,
        ("Degraded", r"(\d+) replicas? takes? traffic"): facts.serving,
        ("Degraded", r"(\d+) replicas? (?:was|were) lost"): facts.expected - facts.serving,
        ("Degraded", r"(\d+) did before"): facts.expected,
    }
    found = [
        f"{kind} says {said[1]}, and {count} is so: {shown[kind]['message']}"
        for (kind, form), count in numbers.items()
        if (said := re.search(form, shown[kind]["message"])) and int(said[1]) != count
    ]
    if shown["Ready"]["reason"] in ("StartingPods", "WarmingUp") and "of the others" in shown["Ready"]["message"]:
        others = shown["Ready"]["message"].partition("of the others")[2]
        if sum(map(int, re.findall(r"(\d+) (?:is|are) ", others))) != facts.made - facts.serving_new:
            found.append(f"the others are not all counted: {shown['Ready']['message']}")
    if re.search(r"\b[Aa]ll \d+ replicas serve", shown["Ready"]["message"]) and not facts.ready:
        found.append(f"not all serve: {shown['Ready']['message']}")
    if (status["ready"], status["readyReplicas"]) != (f"{facts.serving}/{facts.wanted}", facts.serving):
        found.append(f"status.ready is {status['ready']}")
    if (status["phase"] == "Serving") != (shown["Ready"]["reason"] == "Serving"):
        found.append(f"the phase is {status['phase']}")
    return found


STARTS = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 2), (3, 3)]


@pytest.mark.parametrize(
    ("wanted", "before", "refused"),
    [(*each, False) for each in STARTS] + [(*each, True) for each in STARTS if each[0] < 3],
)
def test_conditions_of_replicas_are_those_of_the_table(wanted: int, before: int, refused: bool) -> None:
    start = started(wanted, before)
    for found in slots(wanted, before):
        cluster = filled(start, found, refused=refused)
        failed = Slot.FAILED in found and not refused
        facts = facts_of(cluster, lambda serving: max(before, serving), failed=failed, paused=False, refused=refused)
        assert wrong(cluster, facts, "SettingsWrong" if refused else "ModelNotFound") == [], found


@pytest.mark.parametrize("refused", [False, True], ids=["accepted", "refused"])
@pytest.mark.parametrize("paused", [False, True], ids=["moving", "paused"])
@pytest.mark.parametrize("unavailable", [0, 1])
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_conditions_of_a_rollout_are_those_of_the_table(
    wanted: int, unavailable: int, paused: bool, refused: bool
) -> None:
    start = served(replicas=wanted, rollout={"maxUnavailable": unavailable})
    start.change(model={"maxModelLen": 512})
    start.operate()
    start.controllers()
    old = [each["metadata"]["name"] for each in start.kind("Pod") if each["status"]["containerStatuses"][0]["ready"]]
    (canary,) = {each["metadata"]["name"] for each in start.kind("Pod")} - set(old)
    for slot in NEW:
        # All old pods serve, or one or all of them are lost.
        for lost in range(len(old) + 1):
            cluster = copied(start)
            place(cluster, canary, slot)
            for name in old[:lost]:
                cluster.restart(name)
            seen(cluster, refused=refused, paused=paused)
            facts = facts_of(
                cluster,
                lambda serving: max(wanted - unavailable, min(wanted, serving)),
                failed=False,
                paused=paused,
                refused=refused,
            )
            assert wrong(cluster, facts, "SettingsWrong") == [], (slot, lost)


@pytest.mark.parametrize("ended", [False, True], ids=["ending", "ended"])
def test_conditions_of_no_replicas_are_those_of_the_table(ended: bool) -> None:
    cluster = served(replicas=2)
    cluster.change(replicas=0)
    cluster.operate()
    if ended:
        cluster.controllers()
        cluster.controllers()
    cluster.operate()
    facts = facts_of(cluster, lambda _: 0, failed=False, paused=False, refused=False)
    assert facts.left == (0 if ended else 2)
    assert wrong(cluster, facts, "") == []


def test_manual_states_the_table() -> None:
    rows = [f"| {kind} | {fact} | {status} | {_in_manual(reason)} |" for kind, fact, _, status, reason in TABLE]
    assert [row for row in rows if row not in PAGE] == []


def _in_manual(reason: str) -> str:
    return reason if reason in (BY_PROBLEM, BY_READY) else f"`{reason}`"
