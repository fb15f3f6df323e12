"""spec.autoscaling makes an autoscaler, and the status says whether it works."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gaudi_operator.core.children.drift import has_drifted
from gaudi_operator.core.children.scaling import horizontal_pod_autoscaler
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.status.conditions import judge_autoscaler_active
from gaudi_operator.core.status.verdict import FALSE, TRUE, UNKNOWN, Verdict
from tests.support.builders import Object
from tests.unit.operator.core.cluster import stamp
from tests.unit.operator.core.resources import NOW, inference, resource
from tests.unit.operator.core.states import state_of
from tests.unit.operator.core.stories import condition, served, status

SCALES_NOT = "The autoscaler does not scale:"
NOT_YET = Verdict(UNKNOWN, "NotCountedYet", "The autoscaler has not looked yet.")
ASKED = {"minReplicas": 2, "maxReplicas": 5, "targetRunningRequests": 2000}


def autoscaler(active: str, reason: str = "ValidMetricFound", message: str = "", desired: int = 3) -> Object:
    conditions = [
        {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": ""},
        {"type": "ScalingActive", "status": active, "reason": reason, "message": message},
    ]
    return {"status": {"desiredReplicas": desired, "conditions": conditions}}


def judged(live: Object | None, desired: int = 2) -> Verdict | None:
    seen = Observed(resource(), autoscalers=(live,) if live else ())
    return judge_autoscaler_active(state_of(desired=desired, inference=inference(autoscaling=ASKED), observed=seen))


def test_autoscaler_aims_for_running_requests_per_pod() -> None:
    asked = inference(autoscaling=ASKED)
    assert asked.spec.autoscaling
    target = {"type": "AverageValue", "averageValue": "2000"}
    assert horizontal_pod_autoscaler(asked.identity, asked.spec.autoscaling)["spec"] == {
        "scaleTargetRef": {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "name": "tiny"},
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": "gaudi_requests_running"}, "target": target}}],
    }


def test_target_that_the_server_writes_otherwise_is_no_drift() -> None:
    assert has_drifted({"averageValue": "2000"}, {"averageValue": "2k"}) is None
    assert has_drifted({"averageValue": "2000"}, {"averageValue": "3k"}) == "averageValue"


def test_autoscaler_comes_and_goes_with_its_field_and_restarts_nothing() -> None:
    cluster = served(replicas=2)
    pods = cluster.kind("Pod")
    cluster.change(autoscaling={**ASKED})
    cluster.settle()
    (made,) = cluster.kind("HorizontalPodAutoscaler")
    assert made["metadata"]["ownerReferences"][0]["controller"] is True
    cluster.change(autoscaling={"maxReplicas": 7})
    cluster.settle()
    assert cluster.kind("HorizontalPodAutoscaler")[0]["spec"]["maxReplicas"] == 7
    cluster.change(autoscaling=None)
    assert [action.reason for action in cluster.operate().actions] == ["spec.autoscaling is left out"]
    cluster.settle()
    assert cluster.kind("HorizontalPodAutoscaler") == []
    assert cluster.kind("Pod") == pods


def test_operator_writes_no_replicas_into_the_spec_whatever_the_bounds() -> None:
    cluster = served(replicas=1, autoscaling=ASKED)
    assert (cluster.resource["spec"]["replicas"], len(cluster.kind("Pod"))) == (1, 1)


def test_condition_is_only_there_with_the_field() -> None:
    types = {each["type"] for each in status(served())["conditions"]}
    assert "AutoscalerActive" not in types
    assert judge_autoscaler_active(state_of()) is None


@pytest.mark.parametrize(
    ("live", "verdict"),
    [
        (None, NOT_YET),
        ({"metadata": {}}, NOT_YET),
        (autoscaler("True"), Verdict(TRUE, "Counting", "The autoscaler asks for 3 of 2 to 5 replicas.")),
    ],
)
def test_condition_says_how_many_replicas_are_desired(live: Object | None, verdict: Verdict) -> None:
    assert judged(live) == verdict


def test_condition_says_what_to_do_without_an_adapter() -> None:
    found = judged(autoscaler("False", "FailedGetPodsMetric", "unable to fetch metrics: no API registered"))
    assert found
    assert (found.status, found.reason) == (FALSE, "FailedGetPodsMetric")
    assert found.message.startswith(f"{SCALES_NOT} unable to fetch metrics: no API registered. A metr")
    assert "gaudi_requests_running" in found.message


def test_autoscaler_that_cannot_scale_says_why() -> None:
    hindered: dict[str, Any] = autoscaler("True")
    hindered["status"]["conditions"][0] |= {"status": "False", "reason": "FailedUpdateScale", "message": "forbidden."}
    assert judged(hindered) == Verdict(FALSE, "FailedUpdateScale", f"{SCALES_NOT} forbidden.")


def new_here(since: datetime) -> Object:
    """What a controller manager says that was not told yet of our CustomResourceDefinition."""
    unknown = {"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no matches for kind"}
    return {"status": {"conditions": [{**unknown, "lastTransitionTime": stamp(since)}]}}


def test_autoscaler_of_a_new_cluster_asks_nobody_for_anything() -> None:
    found = judged(new_here(NOW - timedelta(seconds=59)))
    assert found
    assert (found.status, found.reason) == (UNKNOWN, "NotCountedYet")


def test_autoscaler_that_does_not_learn_of_the_resource_says_why() -> None:
    found = judged(new_here(NOW - timedelta(seconds=60)))
    assert found == Verdict(FALSE, "FailedGetScale", f"{SCALES_NOT} no matches for kind.")


def test_operator_looks_again_when_the_autoscaler_should_have_learned() -> None:
    cluster = served(autoscaling=ASKED)
    (made,) = cluster.kind("HorizontalPodAutoscaler")
    made |= new_here(cluster.now)
    plan = cluster.operate()
    assert condition(cluster, "AutoscalerActive") == ("Unknown", "NotCountedYet")
    assert plan.requeue_after
    cluster.now += timedelta(seconds=plan.requeue_after)
    cluster.operate()
    assert condition(cluster, "AutoscalerActive") == ("False", "FailedGetScale")


def test_autoscaler_rests_at_zero() -> None:
    found = judged(autoscaler("False", "ScalingDisabled", "scaling is disabled"), desired=0)
    assert found
    assert (found.status, found.reason) == (UNKNOWN, "ScaledToZero")
