"""A rollout that has no room for a new pod waits, or replaces an old pod in place."""

from datetime import timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.rollout import Rollout, RolloutType
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.inference import read_inference_identity
from gaudi_operator.core.names import IN_PLACE_ANNOTATION
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.rollout.rollout_plan import (
    can_rollout_replace_in_place,
    explain_blocked_rollout,
    why_rollout_replaces_in_place,
)
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.pod_objects import condition, pod, view
from tests.unit.operator.core.resources import NOW, resource
from tests.unit.operator.core.states import warming

DEFAULT = Rollout()
ANSWER = "Pod n had no room next to the old pods for 300 s: 0/1 nodes are available"


def waiting(seconds: int, name: str = "n") -> PodView:
    since = stamp(NOW - timedelta(seconds=seconds))
    scheduled = condition("PodScheduled", False, "Unschedulable", "0/1 nodes are available", since)
    return view(pod(name, revision="new", container=None, phase="Pending", conditions=(scheduled,)))


def replica_set(annotation: str | None = None, refused_for: int | None = None) -> Object:
    annotations = {IN_PLACE_ANNOTATION: annotation} if annotation else {}
    conditions = []
    if refused_for is not None:
        since = stamp(NOW - timedelta(seconds=refused_for))
        refusal = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: cards"}
        conditions.append({**refusal, "lastTransitionTime": since})
    return {"metadata": {"name": "tiny-new", "annotations": annotations}, "status": {"conditions": conditions}}


def in_place_reason(
    rollout: Rollout = DEFAULT, live: Object | None = None, pods: tuple[PodView, ...] = (), **fields: Any
) -> str | None:
    return why_rollout_replaces_in_place(rollout, 3, live, pods, Deadlines(NOW), **fields)


def test_pod_unscheduled_for_the_surge_timeout_is_replaced_in_place() -> None:
    assert in_place_reason(pods=(waiting(300),)) == ANSWER
    assert in_place_reason(pods=(waiting(299),)) is None


def test_surge_timeout_comes_from_the_spec() -> None:
    hurried = Rollout(surge_timeout_seconds=7)
    assert (in_place_reason(hurried, pods=(waiting(7),)) or "").startswith(
        "Pod n had no room next to the old pods for 7 s"
    )
    assert in_place_reason(hurried, pods=(waiting(6),)) is None


def test_quota_refusal_for_the_surge_timeout_starts_in_place() -> None:
    found = "No new pod could be created next to the old pods for 300 s: exceeded quota: cards"
    assert in_place_reason(live=replica_set(refused_for=300)) == found
    assert in_place_reason(live=replica_set(refused_for=299)) is None


def test_reason_recorded_on_the_replica_set_is_used() -> None:
    assert in_place_reason(live=replica_set("no card was free"), pods=(warming(),)) == "no card was free"


def test_room_lost_during_a_rollout_starts_replacement_in_place() -> None:
    assert in_place_reason(pods=(warming(), waiting(300))) == ANSWER


def test_terminating_pods_delay_replacement_in_place() -> None:
    assert in_place_reason(pods=(waiting(300),), waits=True) is None


@pytest.mark.parametrize("rollout", [Rollout(type=RolloutType.SURGE), Rollout(type=RolloutType.IN_PLACE)])
def test_explicit_policy_of_the_spec_is_used_without_a_reason(rollout: Rollout) -> None:
    assert in_place_reason(rollout, replica_set("no card was free", refused_for=300), (waiting(300),)) is None


@pytest.mark.parametrize(
    ("replicas", "rollout", "in_place"),
    [
        (1, Rollout(), False),
        (2, Rollout(), True),
        (3, Rollout(), True),
        (8, Rollout(), True),
        (1, Rollout(max_unavailable=0), False),
        (8, Rollout(max_unavailable=0), False),
        (8, Rollout(max_unavailable="0%"), False),
        (3, Rollout(max_unavailable="25%"), False),
        (4, Rollout(max_unavailable="25%"), True),
        (1, Rollout(max_unavailable=1), True),
        (8, Rollout(type=RolloutType.SURGE, max_unavailable=1), False),
        (8, Rollout(type=RolloutType.IN_PLACE), False),
    ],
)
def test_rollout_in_place_depends_on_spec_and_replicas(replicas: int, rollout: Rollout, in_place: bool) -> None:
    assert can_rollout_replace_in_place(rollout, replicas) is in_place


_PATCH = "`kubectl patch gi tiny -n models --type merge -p"
REPLACE = f"""{_PATCH} '{{"spec":{{"rollout":{{"type":"SurgeThenInPlace"}}}}}}'`."""
PERMIT = REPLACE.replace('"}}}', '","maxUnavailable":null}}}')
ACCEPT = REPLACE.replace('"}}}', '","maxUnavailable":1}}}')


@pytest.mark.parametrize(
    ("replicas", "rollout", "cause", "command"),
    [
        (1, Rollout(), "it is the only replica", ACCEPT),
        (2, Rollout(type=RolloutType.SURGE), "spec.rollout.type is Surge", REPLACE),
        (2, Rollout(max_unavailable=0), "spec.rollout.maxUnavailable is 0", PERMIT),
        (2, Rollout(max_unavailable="0%"), "spec.rollout.maxUnavailable is 0%", PERMIT),
        (3, Rollout(max_unavailable="25%"), "spec.rollout.maxUnavailable is 25%, which is 0 of 3 replicas", PERMIT),
        (2, Rollout(type=RolloutType.SURGE, max_unavailable=0), "spec.rollout.type is Surge", PERMIT),
    ],
)
def test_remedy_names_cause_and_command(replicas: int, rollout: Rollout, cause: str, command: str) -> None:
    found = explain_blocked_rollout(rollout, replicas, read_inference_identity(resource()))
    assert (f"because {cause}. " in found, found.endswith(command)) == (True, True)


def test_remedy_describes_its_effect_on_traffic() -> None:
    owner = read_inference_identity(resource())
    assert explain_blocked_rollout(Rollout(), 1, owner) == (
        "The old pod stays, because it is the only replica. Replacing it in place stops traffic until the new pod is "
        f"warm. Free or add cards. To accept the outage, run: {ACCEPT}"
    )
    assert explain_blocked_rollout(Rollout(max_unavailable=0), 2, owner) == (
        "The old pods stay, because spec.rollout.maxUnavailable is 0. Free or add cards. To replace pods in place "
        f"instead, with one replica missing meanwhile, run: {PERMIT}"
    )
