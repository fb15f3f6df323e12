"""The children of a GaudiInference: creation, repair, foreign fields and objects, and deletion."""

from functools import partial

from gaudi_operator.core.names import FIELD_MANAGER, NAME_LABEL
from tests.cluster.pods import nothing_left, only_child, ready, stalled
from tests.support.builders import gaudi_inference
from tests.support.kube_api import CHILDREN, KubeApi, Object, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

EDITS: dict[str, Object] = {
    "ReplicaSet": {"spec": {"replicas": 7}},
    "Service": {"spec": {"selector": {"app": "another-app"}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 9}},
    "NetworkPolicy": {"spec": {"ingress": None}},
    "ServiceAccount": {"automountServiceAccountToken": True},
}


async def test_every_child_has_its_resource_as_controller_reference(api: KubeApi, operator: OperatorProcess) -> None:
    resource = await api.create(gaudi_inference("tiny"))
    for kind in CHILDREN:
        child = await until(partial(only_child, api, kind), f"a {kind}")
        owner = child["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (resource["metadata"]["uid"], True)


async def test_kopf_writes_no_metadata_on_any_object(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny"))
    kubelet.on_start = lambda runtime: runtime.warm()
    await until(partial(ready, api), "the resource to be Ready")
    for kind in (*CHILDREN, "Pod", "GaudiInference"):
        for each in await api.list(kind):
            assert "finalizers" not in each["metadata"], kind
            assert "kopf" not in str(each), kind


async def test_deleted_child_is_recreated(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny"))
    for kind in CHILDREN:
        child = await until(partial(only_child, api, kind), f"a {kind}")
        await api.delete(kind, child["metadata"]["name"])
        await until(partial(_is_recreated, api, kind, child["metadata"]["uid"]), f"another {kind}")


async def test_edited_child_is_repaired(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny"))
    for kind, edit in EDITS.items():
        child = await until(partial(only_child, api, kind), f"a {kind}")
        edited = await api.merge(kind, child["metadata"]["name"], edit)
        assert _desired(edited) != _desired(child)
        await until(partial(_matches, api, kind, child), f"the {kind} to be as before")


async def test_children_have_only_apply_as_field_manager(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny"))
    for kind in CHILDREN:
        child = await until(partial(only_child, api, kind), f"a {kind}")
        ours = [each for each in child["metadata"]["managedFields"] if each["manager"] == FIELD_MANAGER]
        assert [each["operation"] for each in ours] == ["Apply"], kind


async def test_removed_field_is_removed_from_its_child(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny", service={"annotations": {"example.com/tier": "gold"}}))
    service = await until(partial(only_child, api, "Service"), "a Service")
    assert service["metadata"]["annotations"]["example.com/tier"] == "gold"
    await api.merge("GaudiInference", "tiny", {"spec": {"service": {"annotations": None}}})
    await until(partial(_without_annotation, api, "example.com/tier"), "the annotation to go")


async def _without_annotation(api: KubeApi, name: str) -> bool:
    service = await only_child(api, "Service")
    return bool(service) and name not in service["metadata"].get("annotations", {})


async def test_repair_of_a_child_keeps_foreign_labels_and_fields(api: KubeApi, operator: OperatorProcess) -> None:
    await api.create(gaudi_inference("tiny"))
    await until(partial(only_child, api, "Service"), "a Service")
    foreign = {"metadata": {"labels": {"team": "blue"}}, "spec": {"sessionAffinity": "ClientIP"}}
    await api.merge("Service", "tiny", foreign)
    await api.merge("Service", "tiny", EDITS["Service"])

    async def repaired() -> Object | None:
        service = await api.get("Service", "tiny")
        return service if service and service["spec"]["selector"] == {NAME_LABEL: "tiny"} else None

    service = await until(repaired, "the selector to be ours again")
    assert service["metadata"]["labels"]["team"] == "blue"
    assert service["spec"]["sessionAffinity"] == "ClientIP"


async def test_foreign_service_of_the_same_name_is_not_taken_over(api: KubeApi, operator: OperatorProcess) -> None:
    ports = [{"port": 1234}]
    foreign = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tiny"}, "spec": {"ports": ports}}
    before = await api.create(foreign)
    await api.create(gaudi_inference("tiny"))

    condition = await until(partial(stalled, api, "NameTaken"), "the resource to be Stalled")
    assert "exists and belongs to another owner" in condition["message"]
    assert await api.get("Service", "tiny") == before


async def test_children_are_deleted_with_their_resource(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = lambda runtime: runtime.warm()
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    await api.delete("GaudiInference", "tiny")
    await until(partial(nothing_left, api), "all children to be gone", seconds=60)


async def test_deleted_resource_is_collected_without_an_operator(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = lambda runtime: runtime.warm()
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    await operator.kill()
    await api.delete("GaudiInference", "tiny")
    assert await api.get("GaudiInference", "tiny") is None
    await until(partial(nothing_left, api), "all children to be gone", seconds=60)


async def _is_recreated(api: KubeApi, kind: str, uid: str) -> bool:
    found = await only_child(api, kind)
    return found is not None and found["metadata"]["uid"] != uid


async def _matches(api: KubeApi, kind: str, child: Object) -> bool:
    return _desired(await only_child(api, kind) or {}) == _desired(child)


def _desired(child: Object) -> object:
    """Return the part of a child that the operator sets."""
    return child.get("spec") or {key: value for key, value in child.items() if key not in ("metadata", "secrets")}
