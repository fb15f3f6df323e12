"""Random sequences of changes, crashes, deletions and incomplete reconciles. Each sequence must end correctly."""

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaudi_operator.core.decide import decide
from gaudi_runtime.contract.report import Phase, RequestCountsReport
from tests.support.builders import copied
from tests.support.conformance import violations
from tests.unit.operator.core.cluster import Cluster, upgraded
from tests.unit.operator.core.resources import resource

Happening = Callable[[Cluster, st.DataObject], None]


def change_revision(cluster: Cluster, data: st.DataObject) -> None:
    cluster.change(model={"maxModelLen": data.draw(st.sampled_from([256, 512, 768]), label="maxModelLen")})


def change_replicas(cluster: Cluster, data: st.DataObject) -> None:
    cluster.change(replicas=data.draw(st.integers(0, 4), label="replicas"))


def change_rollout(cluster: Cluster, data: st.DataObject) -> None:
    surge = data.draw(st.sampled_from([1, 2, "25%", "100%"]), label="maxSurge")
    kind = data.draw(st.sampled_from(["Surge", "SurgeThenInPlace", "InPlace"]), label="type")
    zero = [0] if kind != "InPlace" else []
    missing = data.draw(st.sampled_from([None, 1, *zero]), label="maxUnavailable")
    cluster.change(rollout={"maxSurge": surge, "maxUnavailable": missing, "type": kind})


def change_cards(cluster: Cluster, data: st.DataObject) -> None:
    cluster.cards = data.draw(st.sampled_from([None, 0, 1, 2, 4]), label="cards")


def refuse(cluster: Cluster, _: st.DataObject) -> None:
    cluster.change(engine={"settings": {"VLLM_USE_V1": "1"}})
    cluster.operate()
    cluster.change(engine={"settings": None})


def restart_container(cluster: Cluster, data: st.DataObject) -> None:
    names = [pod["metadata"]["name"] for pod in cluster.kind("Pod")]
    if names:
        cluster.restart(data.draw(st.sampled_from(names), label="pod"))


def fall_back_to_warming(cluster: Cluster, data: st.DataObject) -> None:
    names = [pod["metadata"]["name"] for pod in cluster.kind("Pod")]
    if names:
        cluster.report(data.draw(st.sampled_from(names), label="pod"), Phase.COMPILING)


def answer_requests(cluster: Cluster, data: st.DataObject) -> None:
    for pod in cluster.kind("Pod"):
        running = data.draw(st.integers(0, 9), label="running requests")
        cluster.report(pod["metadata"]["name"], Phase.SERVING, requests=RequestCountsReport(running=running))


def delete_something(cluster: Cluster, data: st.DataObject) -> None:
    if cluster.objects:
        cluster.delete(*data.draw(st.sampled_from(sorted(cluster.objects)), label="object"))


def lose_reports(cluster: Cluster, _: st.DataObject) -> None:
    cluster.reports.clear()


def upgrade_operator(cluster: Cluster, _: st.DataObject) -> None:
    cluster.defaults = upgraded(cluster.defaults)


def reconcile_partly(cluster: Cluster, data: st.DataObject) -> None:
    plan = decide(cluster.observed(), cluster.defaults)
    for action in plan.actions[: data.draw(st.integers(0, 3), label="actions")]:
        cluster.perform(action)


def reconcile(cluster: Cluster, _: st.DataObject) -> None:
    cluster.operate()


def run_controllers(cluster: Cluster, data: st.DataObject) -> None:
    cluster.controllers()
    for pod in cluster.kind("Pod"):
        if data.draw(st.booleans(), label="warm"):
            cluster.warm(pod["metadata"]["name"])
    cluster.kubelet()


HAPPENINGS = (
    change_revision,
    change_replicas,
    change_rollout,
    change_cards,
    refuse,
    restart_container,
    fall_back_to_warming,
    answer_requests,
    delete_something,
    lose_reports,
    upgrade_operator,
    reconcile_partly,
    reconcile,
    run_controllers,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(HAPPENINGS), max_size=15), st.data())
def test_any_event_sequence_ends_ready_and_without_changes(story: list[Happening], data: st.DataObject) -> None:
    cluster = run_story(story, data)
    cluster.settle(turns=100)
    _is_correct(cluster)


def run_story(story: list[Happening], data: st.DataObject) -> Cluster:
    """Run all steps of a story and return the cluster.

    The status must be valid after every step. Finally, remove the settings and the card limit that would block a
    rollout.
    """
    cluster = Cluster(resource(replicas=2))
    for happening in story:
        happening(cluster, data)
        if "status" in cluster.resource:
            assert violations(cluster.resource) == []
    cluster.cards = cluster.resource["spec"].get("replicas", 1)
    cluster.change(rollout={"type": "SurgeThenInPlace", "maxUnavailable": 1, "paused": False})
    return cluster


def _is_correct(cluster: Cluster) -> None:
    status, desired = cluster.resource["status"], cluster.resource["spec"].get("replicas", 1)
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert (conditions["Ready"], conditions["Degraded"]) == ("True", "False")
    assert status["readyReplicas"] == desired
    assert len(cluster.kind("Pod")) == desired
    assert len(cluster.kind("ReplicaSet")) == len(cluster.kind("ConfigMap")) == 1
    assert len(cluster.kind("ControllerRevision")) <= 1 + 5
    before = copied(cluster.objects)
    assert cluster.operate().actions == ()
    assert cluster.objects == before
