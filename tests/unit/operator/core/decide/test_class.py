"""Scenarios of decide() for resources with a class."""

from dataclasses import replace
from typing import Any

from gaudi_operator.core.decide import decide
from tests.support.builders import copied
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import CARD, DEFAULTS, resource
from tests.unit.operator.core.stories import STALL, canary_of, condition, pod_names, revisions, served, status

IMAGE = {"images": {"none": "registry.test/cpu:1"}}
NEWER = {"images": {"none": "registry.test/cpu:2"}}


def cluster_with_class(replicas: int = 2, **spec: Any) -> Cluster:
    """Return a serving cluster whose resource uses the default class."""
    cluster = Cluster(resource(replicas=replicas), classes=(gaudi_class(default=True, **spec),))
    cluster.settle()
    return cluster


def change_class(cluster: Cluster, **spec: Any) -> None:
    """Replace the default class."""
    cluster.classes = (gaudi_class(default=True, **spec),)


def images(cluster: Cluster) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in cluster.kind("Pod")}


def message(cluster: Cluster, kind: str) -> str:
    (found,) = [each["message"] for each in status(cluster)["conditions"] if each["type"] == kind]
    return str(found)


def test_pods_have_the_defaults_of_the_class() -> None:
    cluster = cluster_with_class(defaults=IMAGE)
    assert images(cluster) == {"registry.test/cpu:1"}
    assert condition(cluster, "ClassApplied") == ("True", "AsClassSays")


def test_revision_keeps_the_defaults_of_the_class() -> None:
    (kept,) = cluster_with_class(defaults=IMAGE).kind("ControllerRevision")
    assert kept["data"]["class"] == {"name": "gold", "values": {"server.image": "registry.test/cpu:1"}}


def test_changed_class_restarts_no_pod_and_names_the_command() -> None:
    cluster = cluster_with_class(defaults=IMAGE)
    before, (only,) = pod_names(cluster), revisions(cluster)
    change_class(cluster, defaults=NEWER)
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert condition(cluster, "ClassApplied") == ("False", "ClassChanged")
    assert message(cluster, "ClassApplied") == (
        f"Class gold would now change server.image, but revision {only} keeps its values. To apply the change, "
        "run: kubectl gaudi rollout restart tiny -n models"
    )


def test_restart_applies_the_changed_class() -> None:
    cluster = cluster_with_class(defaults=IMAGE)
    change_class(cluster, defaults=NEWER)
    cluster.resource["metadata"]["annotations"] = {"inference.gaudi.dev/restarted-at": "now"}
    cluster.settle()
    assert images(cluster) == {"registry.test/cpu:2"}
    assert condition(cluster, "ClassApplied") == ("True", "AsClassSays")


def test_first_class_restarts_no_pod() -> None:
    cluster = served()
    before = pod_names(cluster)
    change_class(cluster, defaults=IMAGE)
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "ClassApplied") == ("False", "ClassChanged")


def test_different_class_name_creates_a_revision() -> None:
    cluster = served()
    (first,) = revisions(cluster)
    cluster.classes = (gaudi_class(),)
    cluster.change(className="gold")
    cluster.settle()
    assert revisions(cluster) != {first}


def test_spec_beyond_the_class_creates_no_pod() -> None:
    cluster = Cluster(resource(), classes=(gaudi_class(default=True, limits={"images": []}),))
    assert cluster.operate().actions == ()
    assert condition(cluster, "PlanAccepted") == ("False", "ForbiddenByClass")


def test_spec_beyond_the_class_keeps_serving_pods() -> None:
    cluster = cluster_with_class(limits={"priorityClasses": []})
    before = pod_names(cluster)
    cluster.change(pod={"priorityClassName": "high"})
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Available")[0] == "True"


def test_scale_up_beyond_the_class_stops_at_its_limit() -> None:
    cluster = cluster_with_class(limits={"maxReplicas": 3})
    cluster.change(replicas=4)
    cluster.settle()
    assert len(pod_names(cluster)) == 3
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert condition(cluster, "ReplicasLimited") == ("True", "LimitedByClass")
    assert message(cluster, "ReplicasLimited") == (
        "spec.replicas 4 is above 3 (limits.maxReplicas), a limit of class gold. The operator runs 3 replicas. Lower "
        "the field, or use another class."
    )


def test_replicas_within_the_class_are_not_limited() -> None:
    cluster = cluster_with_class(limits={"maxReplicas": 2})
    assert condition(cluster, "ReplicasLimited") == ("False", "WithinLimits")


def test_class_without_a_limit_of_replicas_has_no_condition() -> None:
    cluster = cluster_with_class(limits={"images": ["runtime"]})
    assert "ReplicasLimited" not in {each["type"] for each in status(cluster)["conditions"]}


def test_rollout_under_a_tightened_class_ends_within_its_limit() -> None:
    cluster = cluster_with_class(3)
    change_class(cluster, limits={"maxReplicas": 2})
    cluster.change(engine={"maxNumSeqs": 3})
    cluster.settle()
    assert len(pod_names(cluster)) == 2
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_edit_to_too_many_cards_keeps_serving_pods() -> None:
    cluster = cluster_with_class(limits={"maxCards": 4})
    before = pod_names(cluster)
    cluster.change(engine={"name": "vllm"}, accelerator=CARD, parallelism={"tensor": 8})
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Stalled") == ("True", "ForbiddenByClass")


def test_autoscaler_may_not_exceed_the_class() -> None:
    autoscaling = {"minReplicas": 1, "maxReplicas": 9}
    cluster = Cluster(
        resource(autoscaling=autoscaling), classes=(gaudi_class(default=True, limits={"maxReplicas": 2}),)
    )
    cluster.settle()
    (autoscaler,) = cluster.kind("HorizontalPodAutoscaler")
    assert autoscaler["spec"]["maxReplicas"] == 2


def test_class_that_warns_reports_values_beyond_its_limits() -> None:
    cluster = cluster_with_class(3, enforcement="Warn", limits={"maxReplicas": 2, "images": []})
    assert len(pod_names(cluster)) == 3
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert condition(cluster, "ClassApplied") == ("False", "ClassWouldRefuse")
    assert message(cluster, "ClassApplied") == (
        "Class gold has enforcement: Warn. With Enforce, the class does not allow: spec.server.image runtime:1 is not "
        "an allowed value (limits.images: none); spec.replicas 3 is above 2 (limits.maxReplicas). Change the resource, "
        "use another class, or change the limits of the class."
    )


def test_report_of_a_class_that_warns_includes_changed_defaults() -> None:
    cluster = cluster_with_class(3, enforcement="Warn", defaults=IMAGE, limits={"maxReplicas": 2})
    change_class(cluster, enforcement="Warn", defaults=NEWER, limits={"maxReplicas": 2})
    cluster.settle()
    assert condition(cluster, "ClassApplied") == ("False", "ClassWouldRefuse")
    assert " Class gold would now change server.image, but " in message(cluster, "ClassApplied")


def test_class_that_warns_reports_no_spec_within_its_limits() -> None:
    cluster = cluster_with_class(enforcement="Warn", limits={"maxReplicas": 2})
    assert condition(cluster, "ClassApplied") == ("True", "AsClassSays")


def test_pods_keep_serving_when_a_class_starts_to_enforce() -> None:
    cluster = cluster_with_class(3, enforcement="Warn", limits={"images": []})
    before = pod_names(cluster)
    change_class(cluster, limits={"images": []})
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Stalled") == ("True", "ForbiddenByClass")


def test_scale_up_within_the_class_proceeds() -> None:
    cluster = cluster_with_class(limits={"maxReplicas": 3})
    cluster.change(replicas=3)
    cluster.settle()
    assert len(pod_names(cluster)) == 3


def test_tightened_class_removes_no_pod() -> None:
    cluster = cluster_with_class(3)
    before = pod_names(cluster)
    change_class(cluster, limits={"maxReplicas": 2})
    cluster.settle()
    assert pod_names(cluster) == before


def test_spec_that_the_class_forbids_has_no_class_applied() -> None:
    cluster = cluster_with_class()
    change_class(cluster, limits={"images": ["registry.test/"]})
    cluster.operate()
    assert condition(cluster, "PlanAccepted") == ("False", "ForbiddenByClass")
    assert condition(cluster, "ClassApplied") == ("Unknown", "PlanNotAccepted")


def test_class_that_forbids_the_last_good_revision_is_not_applied() -> None:
    cluster = cluster_with_class()
    (good,) = revisions(cluster)
    cluster.change(server={"image": "registry.test/cpu:1"})
    cluster.report(canary_of(cluster, good), **STALL)
    cluster.settle()
    change_class(cluster, limits={"images": ["registry.test/"]})
    cluster.operate()
    assert condition(cluster, "Stalled") == ("True", "RolledBack")
    assert condition(cluster, "ClassApplied") == ("False", "ForbiddenByClass")


def test_stored_revision_beyond_a_tightened_class_gets_no_pods() -> None:
    cluster = cluster_with_class()
    cluster.change(pod={"priorityClassName": "high"})
    cluster.settle()
    (high,) = revisions(cluster)
    cluster.change(pod={"priorityClassName": None})
    cluster.settle()
    (plain,) = revisions(cluster)
    change_class(cluster, limits={"priorityClasses": []})
    cluster.change(pod={"priorityClassName": "high"})
    cluster.settle()
    assert revisions(cluster) == {plain}
    assert message(cluster, "Stalled").startswith(
        f"The operator creates no more pods of revision {high}: spec.pod.priorityClassName high "
    )


def test_missing_class_blocks_a_scale_up() -> None:
    cluster = served(replicas=2)
    before = pod_names(cluster)
    cluster.change(className="gold", replicas=4)
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    assert pod_names(cluster) == before
    assert condition(cluster, "PlanAccepted") == ("False", "ClassMissing")


def test_resource_waits_for_a_missing_class() -> None:
    cluster = Cluster(resource(className="gold"))
    cluster.operate()
    assert condition(cluster, "Stalled")[0] == "False"
    cluster.classes = (gaudi_class(),)
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_resource_without_a_required_class_gets_no_pods() -> None:
    cluster = Cluster(resource())
    cluster.defaults = replace(cluster.defaults, require_class=True)
    cluster.operate()
    assert pod_names(cluster) == []
    assert condition(cluster, "PlanAccepted") == ("False", "ClassRequired")
    assert condition(cluster, "Stalled") == ("True", "ClassRequired")


def test_pods_keep_serving_when_a_class_becomes_required() -> None:
    cluster = served(replicas=2)
    before = pod_names(cluster)
    cluster.defaults = replace(cluster.defaults, require_class=True)
    cluster.change(replicas=4)
    for _ in range(5):
        cluster.operate()
        cluster.controllers()
    assert pod_names(cluster) == before
    assert condition(cluster, "PlanAccepted") == ("False", "ClassRequired")
    assert status(cluster)["readyReplicas"] == 2


def test_resource_gets_pods_after_it_names_a_class() -> None:
    cluster = Cluster(resource(), classes=(gaudi_class(),))
    cluster.defaults = replace(cluster.defaults, require_class=True)
    cluster.operate()
    cluster.change(className="gold")
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_resource_of_another_installation_is_ignored() -> None:
    cluster = Cluster(resource(className="gold"), classes=(gaudi_class(controller="example.com/other"),))
    plan = cluster.operate()
    assert (plan.actions, plan.events, plan.writes_status) == ((), (), False)


def test_class_of_the_own_controller_is_used() -> None:
    cluster = Cluster(resource(className="gold"), classes=(gaudi_class(controller="example.com/other"),))
    cluster.defaults = replace(cluster.defaults, controller="example.com/other")
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_two_installations_never_write_to_the_same_resource() -> None:
    mine = replace(DEFAULTS, controller="example.com/mine", operator_namespace="mine")
    cluster = Cluster(resource(replicas=2, className="gold"), mine, classes=(gaudi_class(controller=mine.controller),))
    cluster.settle()
    cluster.classes = ()
    cluster.operate()
    written = copied(status(cluster))
    for name in pod_names(cluster):
        cluster.delete("Pod", name)
    cluster.controllers()
    for name in pod_names(cluster):
        cluster.warm(name)
    theirs = decide(cluster.observed(), DEFAULTS)
    assert (theirs.actions, theirs.writes_status) == ((), False)
    assert condition(cluster, "Ready") == ("False", "ClassMissing")
    cluster.settle()
    assert status(cluster)["readyReplicas"] == written["readyReplicas"] == 2


def test_class_moves_a_resource_to_another_installation() -> None:
    mine = replace(DEFAULTS, controller="example.com/mine", operator_namespace="mine")
    cluster = served()
    cluster.defaults, cluster.classes = mine, (gaudi_class(default=True, controller=mine.controller),)
    cluster.settle()
    cluster.classes = ()
    assert decide(cluster.observed(), DEFAULTS).actions == ()
    cluster.delete("Service", "tiny")
    cluster.settle()
    assert len(cluster.kind("Service")) == 1
