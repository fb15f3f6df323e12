"""Resources that exceed the limits of their class. The chart's admission policies refuse these resources."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from gaudi_operator.api.class_rules import RULES
from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from localcluster import ControlPlane
from tests.cluster.conftest import NewClass
from tests.cluster.objects import Objects, Refused
from tests.cluster.pods import ready, stalled
from tests.cluster.refusals import check, refused_write
from tests.support.builders import Object, gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import policy_manifests
from tests.unit.operator.core.limit_cases import BEYOND, NEEDS_PERMISSION, WITHIN

pytestmark = pytest.mark.usefixtures("policies")


@pytest.fixture(scope="module")
def policies(objects: Objects) -> Iterator[None]:
    """The admission policies of the installation."""
    manifests = [each for each in policy_manifests() if not each["metadata"]["name"].endswith("-account")]
    # Create the policy for classes last, because the API server loads policies in the order of their creation. A
    # refusal by this policy then shows that all policies are loaded.
    for manifest in sorted(manifests, key=lambda each: str(each["metadata"]["name"]).endswith("-classes")):
        objects.put(manifest)
    yield
    for manifest in manifests:
        objects.delete(manifest)


class Admission:
    """Dry-run requests that create a resource. They are repeated until the API server has loaded a new class."""

    def __init__(self, control_plane: ControlPlane, objects: Objects, namespace: str) -> None:
        """Prepare the requests without sending a request."""
        self._plane, self._objects, self._namespace = control_plane, objects, namespace

    def wait_refused(self, **spec: Any) -> str:
        """Wait until the API server refuses the resource, and return its message."""
        messages: list[str] = []

        def refused() -> bool:
            messages.extend(filter(None, [self.refusal(**spec)]))
            return bool(messages)

        self._plane.wait(refused, "the API server to refuse the resource")
        return messages[0]

    def wait_accepted(self, **spec: Any) -> None:
        """Wait until the API server accepts the resource."""
        self._plane.wait(lambda: self.refusal(**spec) is None, "the API server to accept the resource")

    def refusal(self, **spec: Any) -> str | None:
        """Return the message of a refusal, or None if the API server accepts the resource."""
        try:
            self._objects.create(gaudi_inference("tiny", **spec), self._namespace, dry_run=True)
        except Refused as refused:
            return str(refused)
        return None


@pytest.fixture
def admission(control_plane: ControlPlane, objects: Objects, namespace: str) -> Admission:
    """Dry-run requests to the admission of the API server."""
    return Admission(control_plane, objects, namespace)


def _case(limits: Object, spec: Object) -> str:
    return f"{','.join(limits)} {list(spec)}"


@pytest.mark.parametrize(("limits", "spec"), [each[:2] for each in BEYOND], ids=[_case(*each[:2]) for each in BEYOND])
def test_spec_that_the_operator_refuses_is_refused_by_admission(
    new_class: NewClass, admission: Admission, limits: Object, spec: Object
) -> None:
    name = new_class(limits=limits)
    sentence = admission.wait_refused(**spec, className=name)
    assert f"limits.{next(iter(limits))}" in sentence
    assert f"a limit of class {name}. Change the field, or use another class." in sentence


def test_specs_beyond_limits_are_refused_as_in_the_table(new_class: NewClass, admission: Admission) -> None:
    names = [new_class(str(number), limits=limits) for number, (limits, *_) in enumerate(BEYOND)]
    messages = [admission.wait_refused(**each[1], className=name) for each, name in zip(BEYOND, names, strict=True)]
    rows = {
        f"{json.dumps(limits)}: {json.dumps(spec)}": refused_write(message, *(f"limits.{limit}" for limit in limits))
        for (limits, spec, _), message in zip(BEYOND, messages, strict=True)
    }
    check("classes", rows)


@pytest.mark.parametrize(("limits", "spec"), WITHIN, ids=[_case(*each) for each in WITHIN])
def test_spec_that_the_operator_runs_is_accepted_by_admission(
    new_class: NewClass, admission: Admission, limits: Object, spec: Object
) -> None:
    name = new_class(limits={**limits, "runtimeClasses": []})
    # Wait until admission refuses this spec. The refusal shows that the API server has loaded the class.
    admission.wait_refused(className=name, pod={"runtimeClassName": "kata"})
    assert admission.refusal(**spec, className=name) is None


def test_admission_checks_every_limit() -> None:
    assert {each.limit for each in RULES} == {each.alias for each in ClassLimits.model_fields.values()}


def test_class_applies_if_named_or_if_default_of_our_controller(new_class: NewClass, admission: Admission) -> None:
    name = new_class(limits={"maxReplicas": 1})
    assert "spec.replicas 2 is above 1 (limits.maxReplicas)" in admission.wait_refused(className=name, replicas=2)
    assert admission.refusal(replicas=2) is None
    new_class(default=True, limits={"maxReplicas": 1})
    assert f"a limit of class {name}" in admission.wait_refused(replicas=2)
    assert admission.refusal(className="missing", replicas=2) is None
    new_class(default=True, controller="example.com/another", limits={"maxReplicas": 1})
    admission.wait_accepted(replicas=2)


def test_class_applies_only_in_selected_namespaces(new_class: NewClass, admission: Admission, namespace: str) -> None:
    key = "kubernetes.io/metadata.name"
    for number, (operator, values) in enumerate({"In": ["others"], "NotIn": [namespace], "DoesNotExist": []}.items()):
        requirement = {"key": key, "operator": operator, **({"values": values} if values else {})}
        name = new_class(str(number), namespaces={"matchExpressions": [requirement]})
        sentence = admission.wait_refused(className=name)
        assert (
            f"spec.className {name} is not for namespace {namespace}, because spec.namespaces of the class does not"
            in sentence
        )
    name = new_class("labels", namespaces={"matchLabels": {key: "others"}})
    admission.wait_refused(className=name)
    new_class(
        "labels", namespaces={"matchLabels": {key: namespace}, "matchExpressions": [{"key": key, "operator": "Exists"}]}
    )
    admission.wait_accepted(className=name)


async def test_tighter_class_refuses_only_the_fields_of_an_edit(
    api: KubeApi, new_class: NewClass, admission: Admission
) -> None:
    name = new_class(limits={"maxReplicas": 3})
    env = [{"name": "A", "value": "b"}]
    await api.create(gaudi_inference("tiny", className=name, replicas=3, engine={"env": env}))
    new_class(limits={"maxReplicas": 2, "environmentVariables": [], "apiKeyRequired": True})
    admission.wait_refused(className=name, replicas=3)
    await api.merge("GaudiInference", "tiny", {"metadata": {"labels": {"a": "b"}}})
    await api.merge("GaudiInference", "tiny", {"spec": {"readiness": {"onShortfall": "ServeAndWarn"}}})
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 1}})
    with pytest.raises(Exception, match="replicas 3 is above 2"):
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 3}})
    more = [*env, {"name": "C", "value": "d"}]
    with pytest.raises(Exception, match=r"variable C is not an allowed value \(limits.environmentVariables: none\)"):
        await api.merge("GaudiInference", "tiny", {"spec": {"engine": {"env": more}}})


async def test_edit_of_allowed_fields_warns_of_existing_violations(
    api: KubeApi, new_class: NewClass, admission: Admission
) -> None:
    name = new_class(limits={"runtimeClasses": ["kata"], "priorityClasses": ["high"]})
    pod = {"runtimeClassName": "kata", "priorityClassName": "high"}
    await api.create(gaudi_inference("tiny", className=name, pod=pod))
    assert not api.warnings
    new_class(limits={"runtimeClasses": []}, namespaces={"matchLabels": {"team": "other"}})
    admission.wait_refused(className=name, pod={"runtimeClassName": "kata"})
    await api.merge("GaudiInference", "tiny", {"metadata": {"labels": {"a": "b"}}})
    assert not api.warnings
    await api.merge("GaudiInference", "tiny", {"spec": {"readiness": {"onShortfall": "ServeAndWarn"}}})
    namespace, runtime_class = sorted(api.warnings)
    assert f"spec.className {name} is not for namespace" in namespace
    assert "spec.pod.runtimeClassName kata is not an allowed value (limits.runtimeClasses: none)" in runtime_class
    assert "Pods keep serving, but the operator does not run the edited spec" in runtime_class
    await api.merge("GaudiInference", "tiny", {"spec": {"pod": {"runtimeClassName": None}}})
    (namespace,) = api.warnings
    assert "is not for namespace" in namespace


async def test_every_write_above_a_trial_limit_returns_a_warning(
    api: KubeApi, new_class: NewClass, admission: Admission
) -> None:
    name = new_class(trial=True, limits={"maxReplicas": 1})
    admission.wait_refused(className=name, networkAccess={"from": "Everyone"})
    later = (
        f"spec.replicas 2 is above 1 (limits.maxReplicas), a limit of class {name}. The class is in trial: when the "
        "trial ends, the class will refuse this spec."
    )
    await api.create(gaudi_inference("tiny", className=name, replicas=2))
    (warning,) = api.warnings
    assert later in warning
    await api.merge("GaudiInference", "tiny", {"metadata": {"labels": {"a": "b"}}})
    (warning,) = api.warnings
    assert later in warning
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 1}})
    assert not api.warnings


@pytest.mark.parametrize(("limit", "permitted", "spec", "cause"), NEEDS_PERMISSION, ids=lambda each: str(each)[:20])
async def test_spec_without_the_required_permission_returns_a_warning(
    api: KubeApi, new_class: NewClass, admission: Admission, limit: str, permitted: object, spec: Object, cause: str
) -> None:
    await api.create(gaudi_inference("without", **spec))
    (warning,) = api.warnings
    assert cause in warning
    assert "so the operator runs such a spec only if a default class allows it (NeedsClass)" in warning
    name = new_class(limits={limit: permitted, "maxReplicas": 1})
    admission.wait_refused(className=name, replicas=2)
    await api.create(gaudi_inference("permitted", className=name, **spec))
    assert not api.warnings
    if limit == "allowAllClients":
        return  # A class that does not allow it refuses the write.
    name = new_class("other", limits={"maxReplicas": 1})
    admission.wait_refused(className=name, replicas=2)
    await api.create(gaudi_inference("refused", className=name, **spec))
    (warning,) = api.warnings
    assert f"{cause}, but class {name} does not allow this." in warning


async def test_class_in_trial_reports_specs_that_it_would_refuse(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass, admission: Admission
) -> None:
    kubelet.on_start = FakeRuntime.warm
    name = new_class(trial=True, limits={"maxReplicas": 1})
    await api.create(gaudi_inference("tiny", className=name, replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    condition = condition_of(await api.get("GaudiInference", "tiny"), "ClassApplied")
    assert (condition["status"], condition["reason"]) == ("False", "ClassWouldRefuse")
    assert "spec.replicas 2 is above 1 (limits.maxReplicas)" in condition["message"]
    new_class(limits={"maxReplicas": 1})
    await until(partial(stalled, api, "ForbiddenByClass"), "the class to refuse the resource")
    admission.wait_refused(className=name, replicas=2)


async def test_scale_is_limited_by_the_class(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    name = new_class(limits={"maxReplicas": 2})
    await api.create(gaudi_inference("other", replicas=1))
    await api.create(gaudi_inference("tiny", className=name, replicas=1))
    await until(partial(ready, api), "the resource to be Ready")

    async def refused() -> str | None:
        try:
            await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 3}}, "scale")
        except Exception as error:
            return str(error)
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 1}}, "scale")
        return None

    sentence = await until(refused, "the API server to know the limit")
    assert "replicas 3 is above 2, the maximum that the class of tiny allows (status.maxReplicas)" in sentence
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}}, "scale")
    await api.merge("GaudiInference", "other", {"spec": {"replicas": 3}}, "scale")
    # Scaling down is allowed even if the new number of replicas is still above `maxReplicas`.
    new_class(limits={"maxReplicas": 0})
    await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 1}}, "scale")
