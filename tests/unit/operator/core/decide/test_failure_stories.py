"""Random scenarios in which revisions fail, are held and retried.

At the end of each scenario, the resource serves or reports why it does not.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_runtime.contract.report import Phase
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.decide.test_stories import (
    Happening,
    change_cards,
    change_replicas,
    change_revision,
    change_rollout,
    lose_reports,
    reconcile,
    reconcile_partly,
    restart_container,
    run_controllers,
    run_story,
)
from tests.unit.operator.core.stories import condition, revisions, status


def stall(cluster: Cluster, data: st.DataObject) -> None:
    pods = cluster.kind("Pod")
    if pods:
        name = data.draw(st.sampled_from([pod["metadata"]["name"] for pod in pods]), label="pod")
        cluster.report(name, Phase.COMPILING, since_progress_seconds=1801)


def hold(cluster: Cluster, data: st.DataObject) -> None:
    cluster.change(rollout={"paused": data.draw(st.booleans(), label="paused")})


def choose_on_failure(cluster: Cluster, data: st.DataObject) -> None:
    cluster.change(rollout={"onFailure": data.draw(st.sampled_from(["Rollback", "Pause"]), label="onFailure")})


def observe(cluster: Cluster, data: st.DataObject) -> None:
    cluster.change(rollout={"canary": {"observeSeconds": data.draw(st.sampled_from([0, 20]), label="seconds")}})


def retry(cluster: Cluster, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(["a", "b", "c"]), label="restarted-at")
    cluster.resource["metadata"]["annotations"] = {RESTARTED_AT_ANNOTATION: at}


def lose_status(cluster: Cluster, _: st.DataObject) -> None:
    cluster.resource.pop("status", None)


HAPPENINGS: tuple[Happening, ...] = (
    change_revision,
    change_replicas,
    change_rollout,
    change_cards,
    restart_container,
    lose_reports,
    lose_status,
    reconcile_partly,
    reconcile,
    run_controllers,
    stall,
    hold,
    choose_on_failure,
    observe,
    retry,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(HAPPENINGS), max_size=20), st.data())
def test_any_failure_sequence_ends_serving_or_with_a_reason(story: list[Happening], data: st.DataObject) -> None:
    cluster = run_story(story, data)
    cluster.settle(turns=120)
    _has_reason(cluster)


def _has_reason(cluster: Cluster) -> None:
    desired, reason = cluster.resource["spec"].get("replicas", 1), condition(cluster, "Stalled")[1]
    assert condition(cluster, "Available")[0] == ("True" if desired else "False")
    assert reason in ("NotStalled", "RolledBack", "RevisionFailed")
    if reason in ("NotStalled", "RolledBack"):
        assert status(cluster)["readyReplicas"] == desired
        assert len(revisions(cluster)) <= 1
    assert (condition(cluster, "Ready")[0] == "True") is (reason == "NotStalled")
    failed = {row["name"] for row in status(cluster)["revisions"] if row["phase"] in ("Failed", "RolledBack")}
    assert not (failed & revisions(cluster)) or reason != "RolledBack"
    assert cluster.operate().actions == ()
