"""The selection of a resource's class and its defaults (core/classes.py)."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER
from gaudi_operator.api.v1alpha1.selectors import LabelSelector
from gaudi_operator.core.classes import (
    ClassFilledInference,
    ResolvedClass,
    class_selector_matches,
    classes_need_namespace_labels,
    fill_class_defaults,
    resolve_class,
)
from gaudi_operator.core.names import CONTROLLER_ANNOTATION
from gaudi_operator.core.observed import Observed
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference, resource

DEFAULT = gaudi_class("usual", default=True)
OTHER = "example.com/other-installation"
FOR_CHAT = gaudi_class("chat", namespaceSelector={"matchLabels": {"team": "chat"}})


def platform(*classes: Object, labels: dict[str, str] | None = None, **spec: Any) -> ResolvedClass:
    observed = Observed(resource(**spec), classes=classes, namespace_labels=labels or {})
    return resolve_class(inference(**spec), observed, DEFAULTS)


def without_class(controller: str, *recorded: str, **spec: Any) -> ResolvedClass:
    """Return the class for the installation `controller` if `recorded` installations ran the revisions of a resource.

    The last entry ran the newest revision.
    """
    annotations = [{CONTROLLER_ANNOTATION: name} if name else None for name in recorded]
    revisions = tuple(
        {"revision": number, "metadata": {"annotations": each}} for number, each in enumerate(annotations)
    )
    observed = Observed(resource(**spec), revisions=revisions)
    return resolve_class(inference(**spec), observed, replace(DEFAULTS, controller=controller))


def required(*classes: Object, **spec: Any) -> ResolvedClass:
    """Return the class of a resource in an installation that requires a class."""
    observed = Observed(resource(**spec), classes=classes)
    return resolve_class(inference(**spec), observed, replace(DEFAULTS, require_class=True))


def reason(*classes: Object, labels: dict[str, str] | None = None, **spec: Any) -> str | None:
    found = platform(*classes, labels=labels, **spec).problem
    return found.reason if found else None


def test_named_class_is_used() -> None:
    assert platform(gaudi_class("gold"), DEFAULT, className="gold").name == "gold"


def test_default_class_is_used_without_a_class_name() -> None:
    assert platform(gaudi_class("gold"), DEFAULT).name == "usual"


def test_no_class_is_used_without_a_default() -> None:
    assert platform(gaudi_class("gold")) == ResolvedClass()


@pytest.mark.parametrize(("asked", "there"), [("gold", "golden"), ("golden", "gold")])
def test_class_name_must_match_completely(asked: str, there: str) -> None:
    assert reason(gaudi_class(there), className=asked) == "ClassMissing"


def test_missing_class_is_reported() -> None:
    assert platform(className="gold") == ResolvedClass(
        "gold",
        problem=Problem(
            "ClassMissing",
            "spec.className is gold, but no GaudiInferenceClass has this name. Create the class, or set "
            "spec.className to a class listed by `kubectl get gic`.",
        ),
    )


def test_two_default_classes_are_reported() -> None:
    assert platform(DEFAULT, gaudi_class("other", default=True)).problem == Problem(
        "ClassAmbiguous",
        "spec.className is left out, but several classes are the default (other, usual). Set spec.className, or keep "
        "only one default class.",
    )


def test_two_default_classes_do_not_affect_a_named_one() -> None:
    assert reason(DEFAULT, gaudi_class("other", default=True), className="other") is None


def test_missing_class_name_is_refused_if_a_class_is_required() -> None:
    assert required(gaudi_class("gold")) == ResolvedClass(
        problem=Problem(
            "ClassRequired",
            "spec.className is left out and there is no default class, but this installation requires a class. Set "
            "spec.className to a class listed by `kubectl get gic`.",
        )
    )


def test_default_class_satisfies_the_requirement() -> None:
    assert required(DEFAULT) == platform(DEFAULT)


def test_named_class_satisfies_the_requirement() -> None:
    assert required(gaudi_class("gold"), className="gold").problem is None


def test_class_of_another_namespace_is_refused() -> None:
    found = platform(FOR_CHAT, labels={"team": "search"}, className="chat").problem
    assert found is not None
    assert (found.reason, found.message) == (
        "ForbiddenByClass",
        "spec.className chat is not for namespace models, because spec.namespaceSelector of the class does not select "
        "this namespace. Use another class.",
    )


def test_class_that_selects_the_namespace_is_allowed() -> None:
    assert reason(FOR_CHAT, labels={"team": "chat"}, className="chat") is None


def test_default_class_of_another_namespace_is_refused() -> None:
    default = gaudi_class("chat", default=True, namespaceSelector=FOR_CHAT["spec"]["namespaceSelector"])
    assert platform(default).problem == Problem(
        "ForbiddenByClass",
        "spec.className is left out, and the default class chat is not for namespace models, because "
        "spec.namespaceSelector of the class does not select this namespace. Use another class.",
    )


def test_class_of_another_controller_is_ignored() -> None:
    assert platform(gaudi_class(controller="example.com/other"), className="gold") == ResolvedClass(
        served_elsewhere=True
    )


@pytest.mark.parametrize("written", [{}, {"spec": None}], ids=["no spec", "empty spec"])
def test_class_without_a_spec_belongs_to_another_controller(written: Object) -> None:
    bare = {"metadata": {"name": "gold"}, **written}
    assert platform(bare, className="gold") == ResolvedClass(served_elsewhere=True)
    assert platform(bare) == ResolvedClass()
    assert not classes_need_namespace_labels(Observed(resource(), classes=(bare,)))


def test_class_of_a_newer_release_is_refused() -> None:
    platform_found = platform(gaudi_class(limits={"maxReplicas": "few"}), className="gold")
    found = platform_found.problem
    assert platform_found.name == "gold"
    assert found == Problem(
        "ClassUnreadable",
        "Class gold has fields or values that this operator does not know, so the limits of the class are unknown. "
        "Install the same release of the operator and the CustomResourceDefinitions.",
    )


def test_refused_class_keeps_its_name_and_limits() -> None:
    found = platform(FOR_CHAT, labels={"team": "search"}, className="chat")
    assert found.name == "chat"
    assert found.spec is not None


@pytest.mark.parametrize(("classes", "asks"), [((), False), ((DEFAULT,), False), ((DEFAULT, FOR_CHAT), True)])
def test_namespace_labels_are_read_if_a_class_selects_namespaces(classes: tuple[Object, ...], asks: bool) -> None:
    assert classes_need_namespace_labels(Observed(resource(), classes=classes)) is asks


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["chat"], True),
        ("In", ["chats", "cha"], False),
        ("NotIn", ["chat"], False),
        ("NotIn", ["chats", "cha"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_namespace_selector_matches_as_in_kubernetes(operator: str, values: list[str], holds: bool) -> None:
    said = {"matchExpressions": [{"key": "team", "operator": operator, "values": values}]}
    assert class_selector_matches(LabelSelector.model_validate(said), {"team": "chat"}) is holds


@pytest.mark.parametrize(
    ("labels", "selected"),
    [
        ({"team": "chat", "tier": "a"}, True),
        ({"team": "chat"}, False),
        ({"team": "chat", "tier": "ab"}, False),
        ({"team": "chats", "tier": "a"}, False),
        ({"team": "chax", "tier": "a"}, False),
    ],
    ids=str,
)
def test_all_selector_labels_must_match(labels: dict[str, str], selected: bool) -> None:
    assert (
        class_selector_matches(LabelSelector.model_validate({"matchLabels": {"team": "chat", "tier": "a"}}), labels)
        is selected
    )


@pytest.mark.parametrize("labels", [{}, {"team-of": "chat"}], ids=["no label", "another label with this prefix"])
@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [("In", ["chat"], False), ("NotIn", ["chat"], True), ("Exists", [], False), ("DoesNotExist", [], True)],
)
def test_namespace_without_the_label_matches_only_negative_operators(
    operator: str, values: list[str], holds: bool, labels: dict[str, str]
) -> None:
    said = {"matchExpressions": [{"key": "team", "operator": operator, "values": values}]}
    assert class_selector_matches(LabelSelector.model_validate(said), labels) is holds


DEFAULTS_OF_A_CLASS: dict[str, Any] = {
    "images": {"gaudi3": "registry.test/gaudi3:1", "none": "registry.test/cpu:1"},
    "imagePullSecrets": [{"name": "pull"}],
    "imagePullPolicy": "Always",
    "nodeSelector": {"pool": "gaudi"},
    "tolerations": [{"key": "gaudi", "operator": "Exists"}],
    "priorityClassName": "serving",
    "hugepages": "21000Mi",
    "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "64Gi", "ephemeral-storage": "90Gi"}},
    "sharedMemorySize": "2Gi",
    "cacheSize": "30Gi",
    "tmpSize": "3Gi",
    "runAsUser": 1000,
    "capabilities": ["SYS_NICE"],
    "tracing": {"endpoint": "http://collector.test:4317"},
}


def filled(class_defaults: dict[str, Any] = DEFAULTS_OF_A_CLASS, **spec: Any) -> ClassFilledInference:
    says = platform(gaudi_class(default=True, defaults=class_defaults), **spec)
    return fill_class_defaults(inference(**spec), says, DEFAULTS)


def test_missing_fields_get_class_defaults() -> None:
    assert filled(accelerator=CARD).values == {
        "server.image": "registry.test/gaudi3:1",
        "pod.imagePullSecrets": [{"name": "pull"}],
        "server.imagePullPolicy": "Always",
        "pod.nodeSelector": {"pool": "gaudi"},
        "pod.tolerations": [{"key": "gaudi", "operator": "Exists"}],
        "pod.priorityClassName": "serving",
        "accelerator.hugepages": "21000Mi",
        "pod.resources.requests.cpu": "8",
        "pod.resources.limits.memory": "64Gi",
        "pod.resources.limits.ephemeral-storage": "90Gi",
        "pod.sharedMemorySize": "2Gi",
        "pod.runAsUser": 1000,
        "cacheSize": "30Gi",
        "tmpSize": "3Gi",
        "capabilities": ["SYS_NICE"],
        "tracing": {"endpoint": "http://collector.test:4317", "samplingPercent": 100},
    }


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"server": {"image": "mine:1"}}, "server.image"),
        ({"pod": {"nodeSelector": {"zone": "a"}}}, "pod.nodeSelector"),
        ({"pod": {"tolerations": [{"key": "a", "operator": "Exists"}]}}, "pod.tolerations"),
        ({"pod": {"priorityClassName": "mine"}}, "pod.priorityClassName"),
        ({"pod": {"resources": {"limits": {"memory": "1Gi"}}}}, "pod.resources.limits.memory"),
        ({"pod": {"resources": {"requests": {"memory": "99Gi"}}}}, "pod.resources.limits.memory"),
        ({"pod": {"resources": {"limits": {"cpu": "1"}}}}, "pod.resources.requests.cpu"),
        ({"pod": {"sharedMemorySize": "1Gi"}}, "pod.sharedMemorySize"),
        ({"pod": {"runAsUser": 2000}}, "pod.runAsUser"),
        ({"pod": {"imagePullSecrets": [{"name": "mine"}]}}, "pod.imagePullSecrets"),
        ({"server": {"imagePullPolicy": "Never"}}, "server.imagePullPolicy"),
        ({}, "accelerator.hugepages"),
        ({"server": {"imagePullPolicy": "IfNotPresent"}}, "server.imagePullPolicy"),
        ({"pod": {"runAsUser": 65532}}, "pod.runAsUser"),
        ({"accelerator": {**CARD, "hugepages": "1Gi"}}, "accelerator.hugepages"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_set_or_unused_fields_get_no_class_default(spec: dict[str, Any], path: str) -> None:
    assert path not in filled(**spec).values


def test_defaults_are_plain_json() -> None:
    (toleration,) = filled().values["pod.tolerations"]
    assert {type(each) for each in toleration.values()} == {str}


def test_settings_without_a_field_replace_the_installations() -> None:
    found = filled().defaults
    assert (found.cache_size, found.tmp_size, found.capabilities) == ("30Gi", "3Gi", ("SYS_NICE",))
    assert found.tracing is not None
    assert found.tracing.endpoint == "http://collector.test:4317"


def test_class_without_settings_keeps_the_installations() -> None:
    assert filled({"nodeSelector": {"pool": "gaudi"}}).defaults == DEFAULTS


def test_user_id_of_the_cluster_is_used() -> None:
    found = filled({"userFromCluster": True})
    assert found.values == {"userFromCluster": True}
    assert found.defaults.user_from_cluster


def test_user_id_of_the_spec_is_kept() -> None:
    found = filled({"userFromCluster": True}, pod={"runAsUser": 2000})
    assert not found.defaults.user_from_cluster
    assert found.values == {}


def test_user_id_of_the_class_replaces_the_clusters() -> None:
    assert not filled({"userFromCluster": True, "runAsUser": 1000}).defaults.user_from_cluster


def test_defaulted_spec_has_the_class_values() -> None:
    spec = filled().inference.spec
    assert (spec.server.image, spec.pod.resources.limits.memory, spec.pod.node_selector) == (
        "registry.test/cpu:1",
        "64Gi",
        {"pool": "gaudi"},
    )


@pytest.mark.parametrize("class_name", [None, "gold"])
@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ((), DEFAULT_CONTROLLER),
        (("",), DEFAULT_CONTROLLER),
        ((OTHER,), OTHER),
        ((OTHER, DEFAULT_CONTROLLER), DEFAULT_CONTROLLER),
        ((DEFAULT_CONTROLLER, OTHER), OTHER),
        ((OTHER, ""), OTHER),
    ],
)
def test_exactly_one_installation_serves_a_resource_without_a_class(
    class_name: str | None, recorded: tuple[str, ...], expected: str
) -> None:
    installations = (DEFAULT_CONTROLLER, OTHER, "example.com/third")
    given = {"className": class_name} if class_name else {}
    found = {name: without_class(name, *recorded, **given) for name in installations}
    assert [name for name in installations if not found[name].served_elsewhere] == [expected]


def test_missing_class_is_reported_by_the_recorded_installation() -> None:
    problem = without_class(OTHER, OTHER, className="gold").problem
    assert problem is not None
    assert problem.reason == "ClassMissing"
