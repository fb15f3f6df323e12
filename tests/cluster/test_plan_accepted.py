"""The condition PlanAccepted and status.plan.

Refused specs start no pod. Accepted specs have no figures until a pod has reported them.
"""

from functools import partial
from pathlib import Path

import pytest

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.pods import all_running, pod_ready, ready, running, stalled, uids_and_specs
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.forecasts import seed
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.real_runtime import real_runtime

FAST = {"server": {"image": "runtime:1"}, "engine": {"settings": {"timeScale": "0.01"}}}
"""The deployment of the reference logs, simulated at a hundred times the card's speed."""

REACHABLE = {"spec": {"readiness": {"minCapturedPromptPercent": 62}}}


async def plan_accepted(api: KubeApi, word: str) -> Object | None:
    """Return the condition PlanAccepted if its message contains `word`."""
    condition = condition_of(await api.get("GaudiInference", "tiny"), "PlanAccepted")
    return condition if word in condition.get("message", "") else None


async def plan_of(api: KubeApi) -> Object:
    """Return the plan in the status."""
    status: Object = (await api.get("GaudiInference", "tiny") or {}).get("status") or {}
    return dict(status["plan"])


async def test_missed_threshold_stalls_until_it_is_lowered(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, tmp_path: Path
) -> None:
    kubelet.make_runtime = partial(real_runtime, api, tmp_path)
    kubelet.schedulable = lambda _: False
    await api.create(gaudi_inference("tiny", **seed(**FAST)))
    await until(partial(plan_accepted, api, "`gaudi-plan forecast --from-cluster tiny`"), "the first condition")
    assert "plan" not in (await api.get("GaudiInference", "tiny") or {})["status"]
    kubelet.schedulable = lambda _: True
    await kubelet.reschedule()
    await until(partial(stalled, api, "CapturedBelowThreshold"), "the resource to be Stalled", seconds=60)

    await api.merge("GaudiInference", "tiny", REACHABLE)
    await until(partial(ready, api), "the resource to be Ready", seconds=60)
    await until(partial(plan_accepted, api, "simulated by pod tiny-"), "the pod's figures")
    plan = await plan_of(api)
    assert (plan["basis"], plan["promptBuckets"], plan["decodeBuckets"]) == ("Simulated", 24, 48)
    assert plan["capturedPercent"] == {"prompt": 62, "decode": 100}


async def test_refused_plan_leaves_serving_pods_untouched(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    names = await all_running(api, kubelet, 2)
    await api.merge("GaudiInference", "tiny", {"spec": {"bucketing": HALVED}})
    await until(partial(stalled, api, "BucketsMissing"), "the resource to be Stalled")
    assert await all_running(api, kubelet, 2) == names
    resource = await api.get("GaudiInference", "tiny")
    assert condition_of(resource, "Available")["status"] == "True"
    assert len(await api.list("ReplicaSet", NAME_LABEL)) == 1


HALVED = {"strategy": "File", "file": "(1, 256, 0)\n(2, 1, 64)\n"}
"""Buckets for half of the sequences that may run."""


async def test_policy_with_gaps_is_refused(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", bucketing=HALVED))
    refusal = await until(partial(stalled, api, "BucketsMissing"), "the policy to be refused")
    assert "decode batches of 3 to 4 sequences have no bucket" in refusal["message"]
    assert await api.list("ReplicaSet", NAME_LABEL) == []


async def test_allowed_gaps_are_reported_by_a_pod(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, tmp_path: Path
) -> None:
    kubelet.make_runtime = partial(real_runtime, api, tmp_path)
    await api.create(gaudi_inference("tiny", engine={"name": "sim"}, bucketing={**HALVED, "gaps": "Allow"}))
    await until(partial(reports_gaps, api), "the gaps in BucketCoverage", seconds=60)
    assert (await plan_of(api))["decodeGaps"] == 2


async def reports_gaps(api: KubeApi) -> bool:
    """Return whether the condition BucketCoverage reports the gaps for the KV blocks of the pod."""
    condition = condition_of(await api.get("GaudiInference", "tiny"), "BucketCoverage")
    return condition.get("reason") == "BucketsMissing" and "2 gaps, the first from (1, 1, 65)" in condition["message"]


IMPOSSIBLE = {
    "no KV block fits": ({"accelerator": {"deviceMemory": "1"}}, "PlanImpossible"),
    "a source that is not built": (
        {"model": {"source": {"hostPath": {"path": "/models"}, "persistentVolumeClaim": None}}},
        "HostPathNotAllowed",
    ),
}


@pytest.mark.parametrize(("change", "reason"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_impossible_spec_is_a_condition_and_starts_no_pod(
    api: KubeApi, operator: OperatorProcess, change: Object, reason: str
) -> None:
    await api.create(gaudi_inference("tiny", **change))
    await until(partial(stalled, api, reason), f"the resource to be Stalled with {reason}")
    assert not await api.list("ReplicaSet", NAME_LABEL)


async def test_impossible_change_leaves_serving_pods_untouched(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    pod = await running(api, kubelet)
    sets = await api.list("ReplicaSet", NAME_LABEL)
    await api.merge("GaudiInference", "tiny", {"spec": {"accelerator": {"deviceMemory": "1"}}})
    await until(partial(stalled, api, "PlanImpossible"), "the resource to be Stalled")
    assert await pod_ready(api, pod)
    assert uids_and_specs(await api.list("ReplicaSet", NAME_LABEL)) == uids_and_specs(sets)
