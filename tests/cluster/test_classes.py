"""GaudiInferenceClasses on a real API server: stored, watched and enforced."""

import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from gaudi_operator.api.v1alpha1.inference_class import KIND
from gaudi_operator.api.v1alpha1.resource import API_VERSION
from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import NewClass
from tests.cluster.objects import Objects, Refused
from tests.cluster.pods import all_running, ready, stalled
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "classes.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


async def class_applied(api: KubeApi, reason: str) -> Object | None:
    """Return the condition ClassApplied if the condition has `reason`."""
    condition = condition_of(await api.get("GaudiInference", "tiny"), "ClassApplied")
    return condition if condition.get("reason") == reason else None


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: str(each["metadata"]["name"]))
def test_documented_class_is_stored_unchanged(objects: Objects, namespace: str, example: Object) -> None:
    manifest = {**example, "metadata": {"name": f"{namespace}-{example['metadata']['name']}"}}
    kept = objects.create(manifest)
    objects.delete(manifest)
    assert kept["spec"] == {"controller": kept["spec"]["controller"], "default": False} | kept["spec"]
    assert example["spec"]["limits"].items() <= kept["spec"]["limits"].items()


BAD_CLASSES: dict[str, tuple[Object, str]] = {
    "argument without dashes": ({"limits": {"extraArguments": ["seed"]}}, r"spec\.limits\.extraArguments"),
    "capability": ({"defaults": {"capabilities": ["SYS_ADMIN"]}}, 'Unsupported value: "SYS_ADMIN"'),
    "collector without scheme": (
        {"defaults": {"tracing": {"endpoint": "collector:4317"}}},
        "must start with https:// or http://",
    ),
    "collector with a password": (
        {"defaults": {"tracing": {"endpoint": "https://me:word@collector.example:4318"}}},
        "must not contain a password or a key",
    ),
    "collector with a key": (
        {"defaults": {"tracing": {"endpoint": "https://collector.example:4318/v1/traces?api-key=word"}}},
        "must not contain a password or a key",
    ),
}


@pytest.mark.parametrize("case", BAD_CLASSES)
def test_wrong_class_is_refused(objects: Objects, namespace: str, case: str) -> None:
    spec, reason = BAD_CLASSES[case]
    with pytest.raises(Refused, match=reason):
        objects.create({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": namespace}, "spec": spec})


async def test_class_sets_defaults_and_its_change_restarts_no_pod(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    name = new_class(defaults={"images": {"none": "registry.test/cpu:1"}, "resources": {"limits": {"memory": "2Gi"}}})
    await api.create(gaudi_inference("tiny", className=name))
    await until(partial(ready, api), "the resource to be Ready")
    (pod,) = await api.list("Pod", NAME_LABEL)
    container = pod["spec"]["containers"][0]
    assert (container["image"], container["resources"]["limits"]) == ("registry.test/cpu:1", {"memory": "2Gi"})

    new_class(defaults={"images": {"none": "registry.test/cpu:2"}, "resources": {"limits": {"memory": "2Gi"}}})
    condition = await until(partial(class_applied, api, "ClassChanged"), "the condition to report the change")
    assert f"kubectl gaudi rollout restart tiny -n {api.namespace}" in condition["message"]
    assert [each["metadata"]["uid"] for each in await api.list("Pod", NAME_LABEL)] == [pod["metadata"]["uid"]]


async def test_scale_up_is_limited_until_the_class_allows_more(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    name = new_class(limits={"maxReplicas": 1})
    await api.create(gaudi_inference("tiny", className=name))
    await until(partial(ready, api), "the resource to be Ready")
    before = await all_running(api, kubelet, 1)
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}}, "scale")

    async def limited() -> Object | None:
        condition = condition_of(await api.get("GaudiInference", "tiny"), "ReplicasLimited")
        return condition if condition.get("status") == "True" else None

    condition = await until(limited, "the replicas to be limited")
    assert f"spec.replicas 2 is above 1 (limits.maxReplicas), a limit of class {name}" in condition["message"]
    assert await all_running(api, kubelet, 1) == before
    new_class(limits={"maxReplicas": 2})
    await until(partial(all_running, api, kubelet, 2), "a second pod")


async def test_class_that_warns_reports_specs_that_it_would_refuse(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    name = new_class(enforcement="Warn", limits={"images": []})
    await api.create(gaudi_inference("tiny", className=name))
    await until(partial(ready, api), "the resource to be Ready")
    condition = await until(partial(class_applied, api, "ClassWouldRefuse"), "the condition to report the image")
    assert (
        "spec.server.image registry.test/runtime:1 is not an allowed value (limits.images: none)"
        in condition["message"]
    )
    new_class(limits={"images": []})
    await until(partial(stalled, api, "ForbiddenByClass"), "the class to refuse the resource")


async def test_class_applies_only_in_selected_namespaces(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    key = "kubernetes.io/metadata.name"
    mine = new_class("mine", namespaceSelector={"matchLabels": {key: api.namespace}})
    others = new_class(
        "others", namespaceSelector={"matchExpressions": [{"key": key, "operator": "In", "values": ["others"]}]}
    )
    await api.create(gaudi_inference("tiny", className=others))
    await until(partial(stalled, api, "ForbiddenByClass"), "the resource to be Stalled")
    await api.merge("GaudiInference", "tiny", {"spec": {"className": mine}})
    await until(partial(ready, api), "the resource to be Ready")
