"""A policy that lets the operator's account write only objects of a GaudiInference, even if its roles allow more.

This policy also applies to the operators of all other tests in this folder.
"""

from functools import partial

import httpx
import pytest

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import USER, NewOperator
from tests.cluster.objects import Objects
from tests.cluster.pods import nothing_left, only_child, ready, stalled
from tests.cluster.refusals import Row, check, refused_write
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.unit.chart.test_operator_policy import HOSTILE, SERVICE

REFUSED = "The account of gaudi-operator may write only what a GaudiInference owns"
LABELS = {NAME_LABEL: "tiny"}
TEMPLATE: Object = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a", "image": "a"}]}}


FOREIGN_OBJECTS: list[Object] = [
    {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "foreign", "labels": LABELS},
        "spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    },
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "foreign", "labels": LABELS}, "spec": TEMPLATE["spec"]},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign", "labels": LABELS}},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "foreign", "labels": LABELS},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
]


async def refusal(api: KubeApi, method: str, manifest: Object, body: object = None) -> str | None:
    """Return the policy's message if the policy refuses a request of the operator's account.

    Return None if the request succeeds or another component refuses the request.
    """
    name = "" if method == "POST" else manifest["metadata"]["name"]
    headers = {"Impersonate-User": USER, "Content-Type": _TYPES[method]}
    path = api.path(manifest["kind"], name)
    try:
        await api.send(method, path, body, headers=headers, params={"dryRun": "All"})
    except httpx.HTTPStatusError as error:
        return str(error) if "ValidatingAdmissionPolicy" in str(error) else None
    return None


_TYPES = {"POST": "application/json", "DELETE": "application/json", "PATCH": "application/merge-patch+json"}


@pytest.mark.parametrize("manifest", FOREIGN_OBJECTS, ids=lambda each: str(each["kind"]))
async def test_foreign_object_cannot_be_written(api: KubeApi, new_operator: NewOperator, manifest: Object) -> None:
    await api.create(manifest)
    patch = {"metadata": {"annotations": {"a": "b"}}}
    message = await until(partial(refusal, api, "PATCH", manifest, patch), "the refusal")
    assert REFUSED in message
    if manifest["kind"] != "Pod":  # its roles do not allow it to delete pods
        assert REFUSED in (await refusal(api, "DELETE", manifest) or "")
    mine = {"metadata": {"ownerReferences": [missing_owner()]}}
    assert REFUSED in (await refusal(api, "PATCH", manifest, mine) or "")


async def test_spec_of_an_owned_pod_cannot_be_changed(api: KubeApi, new_operator: NewOperator) -> None:
    workload = FOREIGN_OBJECTS[0]
    await api.create({**workload, "spec": {**workload["spec"], "replicas": 1}})
    pod = {**await until(partial(only_child, api, "Pod"), "the pod of the ReplicaSet"), "kind": "Pod"}
    refused = partial(refusal, api, "PATCH", pod)
    message = await until(partial(refused, {"spec": {"activeDeadlineSeconds": 1}}), "the refusal")
    assert "may not change the spec of a pod" in message
    image = {"containers": [{**pod["spec"]["containers"][0], "image": "other"}]}
    assert "may not change the spec of a pod" in (await refused({"spec": image}) or "")
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}}}
    assert await refused(cost) is None


def missing_owner() -> Object:
    """Return an owner reference in the operator's format. The owner does not exist."""
    return {
        "apiVersion": "inference.gaudi.dev/v1alpha1",
        "kind": "GaudiInference",
        "name": "tiny",
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
    }


async def new_owner(api: KubeApi) -> Object:
    """Create the owner, because the garbage collector deletes objects with a missing owner, and return a reference."""
    resource = await api.create(gaudi_inference("tiny"))
    return {**missing_owner(), "uid": resource["metadata"]["uid"]}


async def test_object_without_an_owner_cannot_be_created(api: KubeApi, new_operator: NewOperator) -> None:
    async def refused(manifest: Object) -> str | None:
        return await refusal(api, "POST", manifest, manifest)

    config_map = FOREIGN_OBJECTS[2]
    assert REFUSED in await until(partial(refused, config_map), "the refusal")
    owned = {**config_map["metadata"], "ownerReferences": [missing_owner()]}
    assert await refused({**config_map, "metadata": owned}) is None


def owned(manifest: Object) -> Object:
    """Return a manifest of the unit tests for the namespace of this test."""
    return {**manifest, "metadata": {"name": manifest["metadata"]["name"], "ownerReferences": [missing_owner()]}}


async def test_objects_that_reach_others_are_refused_as_in_the_table(api: KubeApi, new_operator: NewOperator) -> None:
    rows = dict[str, Row]()
    for case, (manifest, reason) in HOSTILE.items():
        message = await until(partial(refusal, api, "POST", owned(manifest), owned(manifest)), f"the refusal: {case}")
        rows[case] = refused_write(message, reason)
    check("children", rows)


async def test_external_address_of_a_user_blocks_no_write(api: KubeApi, new_operator: NewOperator) -> None:
    service = owned(SERVICE)
    service["metadata"]["ownerReferences"] = [await new_owner(api)]
    assert await refusal(api, "POST", service, service) is None
    await api.create({**service, "spec": {**service["spec"], "externalIPs": ["10.1.1.1"]}})
    other_addresses = {"spec": {"externalIPs": ["10.1.1.2"]}}
    message = await until(partial(refusal, api, "PATCH", service, other_addresses), "the refusal")
    assert "without external addresses" in message
    assert await refusal(api, "PATCH", service, {"spec": {"internalTrafficPolicy": "Local"}}) is None


async def test_policy_refuses_no_write_during_the_life_of_a_resource(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator() as operator:
        cache = {"size": "1Gi", "retentionPolicy": "Retain"}
        autoscaling = {"minReplicas": 1, "maxReplicas": 3}
        await api.create(gaudi_inference("tiny", replicas=2, recipeCache=cache, autoscaling=autoscaling))
        await until(partial(ready, api), "the resource to be Ready")
        await api.merge("GaudiInference", "tiny", {"spec": {"engine": {"maxNumSeqs": 3}}})
        await until(partial(ready, api), "the new revision to be Ready")
        await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"retentionPolicy": "Delete"}}})
        await api.merge("GaudiInference", "tiny", {"spec": {"recipeCache": {"retentionPolicy": "Retain"}}})
        await api.merge("GaudiInference", "tiny", {"spec": {"autoscaling": None, "replicas": 1}})
        await until(partial(ready, api), "one replica to be Ready")
        await until(partial(only_child, api, "Pod"), "the other pod to be gone")
        assert not [line for line in operator.lines() if "ValidatingAdmissionPolicy" in str(line)]
        await api.delete("GaudiInference", "tiny")
        await until(partial(nothing_left, api), "everything to be collected", seconds=60)


async def test_pod_that_the_policy_refuses_is_reported(api: KubeApi, new_operator: NewOperator) -> None:
    # The installation allows every folder, but the policy allows only /models.
    async with new_operator(allow_host_path='[{"prefix": "/"}]'):
        source = {"persistentVolumeClaim": None, "hostPath": {"path": "/etc"}}
        await api.create(gaudi_inference("tiny", model={"source": source}))
        condition = await until(partial(stalled, api, "PodNotAllowed"), "the resource to be Stalled")
        assert condition["message"].startswith("The API server does not allow the pods of this spec.pod. ")
        assert "may mount only folders of nodes that the chart's allowHostPath lists" in condition["message"]


TENANT = "tenant"
FENCE = "may write the revisions of a GaudiInference"
RECORD: Object = {
    "apiVersion": "apps/v1",
    "kind": "ControllerRevision",
    "metadata": {"name": "tiny-forged"},
    "revision": 9,
}
LABELLED: Object = {**RECORD, "metadata": {"name": "tiny-forged", "labels": LABELS}, "data": {"template": TEMPLATE}}


def forged() -> Object:
    """Return a revision that the operator would read, because its owner is a GaudiInference."""
    return {**LABELLED, "metadata": {**LABELLED["metadata"], "ownerReferences": [missing_owner()]}}


def granted(resource: str, group: str, *verbs: str) -> list[Object]:
    """Return a Role and its binding that let the tenant use these verbs."""
    metadata = {"name": f"tenant-{resource}"}
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [group], "resources": [resource], "verbs": [*verbs]}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": metadata["name"]},
            "subjects": [{"kind": "User", "name": TENANT, "apiGroup": rbac}],
        },
    ]


async def write(api: KubeApi, method: str, name: str, body: Object) -> str:
    """Return the API server's message if it refuses a dry run of the tenant, and an empty text if it accepts it."""
    headers = {"Impersonate-User": TENANT, "Content-Type": _TYPES[method]}
    try:
        await api.send(method, api.path("ControllerRevision", name), body, headers=headers, params={"dryRun": "All"})
    except httpx.HTTPStatusError as error:
        return str(error.response.json()["message"])
    return ""


async def test_revision_can_be_forged_only_with_the_permission_restore(
    api: KubeApi, new_operator: NewOperator, objects: Objects, namespace: str
) -> None:
    for manifest in granted("controllerrevisions", "apps", "create", "patch"):
        objects.put(manifest, namespace)

    async def refused() -> bool:
        return FENCE in await write(api, "POST", "", forged())

    await until(refused, "the refusal of a forged revision")
    assert await write(api, "POST", "", {**RECORD, "data": {}}) == ""
    # The StatefulSet of a group has such revisions.
    assert await write(api, "POST", "", LABELLED) == ""
    for manifest in granted("gaudiinferences", "inference.gaudi.dev", "restore"):
        objects.put(manifest, namespace)

    async def accepted() -> bool:
        return await write(api, "POST", "", forged()) == ""

    await until(accepted, "the permission to restore revisions")


async def test_only_annotations_of_a_revision_may_be_changed(
    api: KubeApi, new_operator: NewOperator, objects: Objects, namespace: str
) -> None:
    for manifest in granted("controllerrevisions", "apps", "patch"):
        objects.put(manifest, namespace)
    await api.create({**RECORD, "data": {}})
    adopted = {"metadata": {"labels": LABELS, "ownerReferences": [await new_owner(api)]}}

    async def refused() -> bool:
        return FENCE in await write(api, "PATCH", "tiny-forged", adopted)

    await until(refused, "the refusal of a label")
    await api.merge("ControllerRevision", "tiny-forged", adopted)
    other = {**missing_owner(), "controller": False, "name": "other", "uid": "00000000-0000-0000-0000-000000000001"}
    assert FENCE in await write(api, "PATCH", "tiny-forged", {"metadata": {"ownerReferences": [other]}})
    assert await write(api, "PATCH", "tiny-forged", {"metadata": {"annotations": {"a": "b"}}}) == ""
