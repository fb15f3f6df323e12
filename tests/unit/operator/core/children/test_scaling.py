"""The HorizontalPodAutoscaler of spec.autoscaling, and the condition about it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import PlanBasis, PlanState
from gaudi_operator.core.children.manifests import autoscaler_manifest, autoscaler_manifest_window
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.status.conditions import FALSE, TRUE, UNKNOWN, Verdict, judge_autoscaler_active
from gaudi_runtime.contract.report import Phase
from tests.support.builders import Object
from tests.support.metrics import BEHAVIOR, METRICS
from tests.unit.operator.core.cluster import Cluster, stamp
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, inference, resource
from tests.unit.operator.core.states import serving, state_of
from tests.unit.operator.core.stories import condition, kinds, pod_names, served, status

SCALES_NOT = "The autoscaler does not scale:"
NOT_YET = Verdict(UNKNOWN, "NotObservedYet", "The autoscaler has not reported a status yet.")
ASKED = {"minReplicas": 2, "maxReplicas": 5}


def autoscaler(active: str, reason: str = "ValidMetricFound", message: str = "", desired: int = 3) -> Object:
    conditions = [
        {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": ""},
        {"type": "ScalingActive", "status": active, "reason": reason, "message": message},
    ]
    return {"status": {"desiredReplicas": desired, "conditions": conditions}}


def window_of(cluster: Cluster) -> int:
    (found,) = cluster.kind("HorizontalPodAutoscaler")
    seconds: int = found["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"]
    return seconds


def judged(live: Object | None, desired: int = 2, **asked: Any) -> Verdict | None:
    seen = Observed(resource(), autoscalers=(live,) if live else ())
    scaled = inference(autoscaling={**ASKED, **asked})
    return judge_autoscaler_active(state_of(desired=desired, inference=scaled, observed=seen))


def autoscaler_spec(window: int = 300, asked: Object = ASKED, **spec: Any) -> Object:
    """Return the spec of the autoscaler."""
    found = inference(autoscaling=asked, **spec)
    assert found.spec.autoscaling
    written: Object = autoscaler_manifest(found, found.spec.autoscaling, window)["spec"]
    return written


@pytest.mark.parametrize(
    ("sequences", "copies", "target"), [(128, 1, "102"), (128, 8, "819"), (10, 1, "8"), (2, 1, "1"), (1, 1, "1")]
)
def test_autoscaler_targets_running_requests_per_pod(sequences: int, copies: int, target: str) -> None:
    average = {"type": "AverageValue", "averageValue": target}
    spec = {"engine": {"maxNumSeqs": sequences}, "model": {"maxModelLen": 256}, "parallelism": {"data": copies}}
    assert autoscaler_spec(**spec) == {
        "scaleTargetRef": {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "name": "tiny"},
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": "gaudi_requests_running"}, "target": average}}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
    }


def test_metrics_and_behavior_are_copied_from_the_spec() -> None:
    asked = {**ASKED, "metrics": METRICS, "behavior": BEHAVIOR}
    found = autoscaler_spec(asked=asked)
    assert (found["metrics"], found["behavior"]) == (METRICS, BEHAVIOR)


def test_stabilization_window_is_added_to_rules_without_one() -> None:
    rules = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}]}
    found = autoscaler_spec(1260, {**ASKED, "behavior": {"scaleDown": rules, "scaleUp": {"selectPolicy": "Disabled"}}})
    assert found["behavior"] == {
        "scaleUp": {"selectPolicy": "Disabled"},
        "scaleDown": {**rules, "stabilizationWindowSeconds": 1260},
    }


@pytest.mark.parametrize("rules", ["slow", 1, [1]])
def test_rules_of_a_wrong_type_are_left_to_the_server(rules: object) -> None:
    assert autoscaler_spec(asked={**ASKED, "behavior": {"scaleDown": rules}})["behavior"] == {"scaleDown": rules}


@pytest.mark.parametrize(
    ("basis", "seconds", "old", "window"),
    [
        ("Measured", 61, 900, 300),
        ("Measured", 301, None, 360),
        ("Simulated", 1201, 300, 1260),
        ("Measured", 9000, None, 3600),
        ("Measured", None, 60, 300),
    ],
)
def test_stabilization_window_is_the_measured_warm_up_within_bounds(
    basis: str, seconds: int | None, old: float | None, window: int
) -> None:
    plan = PlanState(basis=PlanBasis(basis), prompt_buckets=1, decode_buckets=1, kv_blocks=1, warmup_seconds=seconds)
    olds = [serving("a", "old", said=report(Phase.SERVING, elapsed_seconds=old))] if old else []
    assert autoscaler_manifest_window(replace(state_of(olds), plan=plan)) == window


def test_edited_stabilization_window_is_corrected_before_a_measurement() -> None:
    cluster = Cluster(resource(autoscaling=ASKED))
    cluster.operate()
    (found,) = cluster.kind("HorizontalPodAutoscaler")
    found["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 3000
    cluster.operate()
    assert window_of(cluster) == 300


def test_stabilization_window_is_measured_and_kept_through_a_rollout() -> None:
    cluster = served(replicas=1, autoscaling=ASKED)
    (pod,) = pod_names(cluster)
    assert window_of(cluster) == 300
    cluster.report(pod, Phase.SERVING, elapsed_seconds=1201.0)
    assert kinds(cluster.operate()) == ["HorizontalPodAutoscaler"]
    assert window_of(cluster) == 1260
    assert cluster.operate().actions == ()

    cluster.change(engine={"maxNumSeqs": 2})
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    assert len(pod_names(cluster)) == 2
    assert window_of(cluster) == 1260
    cluster.settle()
    assert window_of(cluster) == 300  # the pod of the new revision has no warm-up time


def test_autoscaler_follows_its_field_without_restarts() -> None:
    cluster = served(replicas=2)
    pods = cluster.kind("Pod")
    cluster.change(autoscaling={**ASKED})
    cluster.settle()
    (written,) = cluster.kind("HorizontalPodAutoscaler")
    assert written["metadata"]["ownerReferences"][0]["controller"] is True
    cluster.change(autoscaling={"maxReplicas": 7})
    cluster.settle()
    assert cluster.kind("HorizontalPodAutoscaler")[0]["spec"]["maxReplicas"] == 7
    cluster.change(autoscaling=None)
    assert [action.reason for action in cluster.operate().actions] == ["spec.autoscaling is left out"]
    cluster.settle()
    assert cluster.kind("HorizontalPodAutoscaler") == []
    assert cluster.kind("Pod") == pods


def test_operator_does_not_write_replicas_into_the_spec() -> None:
    cluster = served(replicas=1, autoscaling=ASKED)
    assert (cluster.resource["spec"]["replicas"], len(cluster.kind("Pod"))) == (1, 1)


def test_condition_exists_only_with_autoscaling() -> None:
    types = {each["type"] for each in status(served())["conditions"]}
    assert "AutoscalerActive" not in types
    assert judge_autoscaler_active(state_of()) is None


@pytest.mark.parametrize(
    ("live", "verdict"),
    [
        (None, NOT_YET),
        ({"metadata": {}}, NOT_YET),
        (
            autoscaler("True"),
            Verdict(TRUE, "ScalingActive", "The autoscaler requests spec.replicas: 3 (allowed: 2 to 5)."),
        ),
    ],
)
def test_condition_has_the_desired_replicas(live: Object | None, verdict: Verdict) -> None:
    assert judged(live) == verdict


def test_condition_names_the_remedy_for_a_missing_adapter() -> None:
    found = judged(autoscaler("False", "FailedGetPodsMetric", "unable to fetch metrics: no API registered"))
    assert found
    assert (found.status, found.reason) == (FALSE, "FailedGetPodsMetric")
    assert found.message.startswith(f"{SCALES_NOT} unable to fetch metrics: no API registered. A metr")
    assert "gaudi_requests_running" in found.message


def test_condition_names_a_missing_metric() -> None:
    found = judged(autoscaler("False", "FailedGetExternalMetric", "no metrics returned"), metrics=METRICS)
    served = (
        "A metrics adapter must serve each metric of spec.autoscaling.metrics. Until then, the number of "
        "replicas does not change."
    )
    assert found == Verdict(FALSE, "FailedGetExternalMetric", f"{SCALES_NOT} no metrics returned. {served}")


def test_condition_has_the_reason_why_scaling_fails() -> None:
    hindered: dict[str, Any] = autoscaler("True")
    hindered["status"]["conditions"][0] |= {"status": "False", "reason": "FailedUpdateScale", "message": "forbidden."}
    assert judged(hindered) == Verdict(FALSE, "FailedUpdateScale", f"{SCALES_NOT} forbidden.")


def autoscaler_without_crd(since: datetime) -> Object:
    """Return the status of an autoscaler whose controller manager does not know the CRD yet."""
    unknown = {"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no matches for kind"}
    return {"status": {"conditions": [{**unknown, "lastTransitionTime": stamp(since)}]}}


def test_autoscaler_of_a_new_cluster_needs_no_action() -> None:
    found = judged(autoscaler_without_crd(NOW - timedelta(seconds=59)))
    assert found
    assert (found.status, found.reason) == (UNKNOWN, "NotObservedYet")


def test_condition_has_a_reason_if_the_autoscaler_lacks_the_crd() -> None:
    found = judged(autoscaler_without_crd(NOW - timedelta(seconds=60)))
    assert found == Verdict(FALSE, "FailedGetScale", f"{SCALES_NOT} no matches for kind.")


def test_operator_requeues_until_the_autoscaler_finds_the_crd() -> None:
    cluster = served(autoscaling=ASKED)
    (written,) = cluster.kind("HorizontalPodAutoscaler")
    written |= autoscaler_without_crd(cluster.now)
    plan = cluster.operate()
    assert condition(cluster, "AutoscalerActive") == ("Unknown", "NotObservedYet")
    assert plan.requeue_after
    cluster.now += timedelta(seconds=plan.requeue_after)
    cluster.operate()
    assert condition(cluster, "AutoscalerActive") == ("False", "FailedGetScale")


def test_autoscaler_is_inactive_at_zero_replicas() -> None:
    found = judged(autoscaler("False", "ScalingDisabled", "scaling is disabled"), desired=0)
    assert found
    assert (found.status, found.reason) == (UNKNOWN, "ScaledToZero")
