"""The admission policies for classes in the chart, evaluated in CEL without an API server."""

from typing import Any

import pytest

from gaudi_operator.api import class_policies
from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER
from gaudi_operator.core.rollout.desired_revision import desired_revision
from tests.support.builders import Object, gaudi_inference
from tests.support.policy_evaluation import messages
from tests.unit.operator.core.gaudi_classes import gaudi_class, judged
from tests.unit.operator.core.limit_cases import BEYOND, NEEDS_PERMISSION, WITHIN
from tests.unit.operator.core.resources import DEFAULTS, inference

POLICIES = {
    each["metadata"]["name"].removeprefix("a-"): each
    for each in class_policies.admission_policies("a", DEFAULT_CONTROLLER, [])
    if each["kind"] == "ValidatingAdmissionPolicy"
}
LIMITED = [each[:2] for each in BEYOND if "allowAllClients" not in each[0]]
OPEN: Object = {"networkAccess": {"from": "Everyone"}}
LATER = "a limit of class gold. The class is in trial: when the trial ends, the class will refuse this spec."


def resource(**spec: Any) -> Object:
    return gaudi_inference("tiny", "models", **{"className": "gold", **spec})


def stored(limits: Object, **spec: Any) -> Object:
    """Return the class `gold` as the API server stores it."""
    return gaudi_class(
        limits={"trustRemoteCode": True, "apiKeyRequired": False, "allowAllClients": False, **limits}, **spec
    )


def refused(limits: Object, old: Object | None = None, new: Object | None = None, **of_class: Any) -> list[str]:
    return messages(POLICIES["classes"], new or resource(), old, stored(limits, **of_class))


def warned(limits: Object, old: Object | None = None, new: Object | None = None, **of_class: Any) -> list[str]:
    return messages(POLICIES["class-warnings"], new or resource(), old, stored(limits, **of_class))


def _case(each: object) -> str:
    return ",".join(each) if isinstance(each, dict) else ""


@pytest.mark.parametrize(("limits", "spec"), LIMITED, ids=_case)
def test_trial_warns_about_specs_that_the_class_will_refuse(limits: Object, spec: Object) -> None:
    new = resource(**spec)
    (sentence,) = refused(limits, new=new)
    assert sentence.endswith(", a limit of class gold. Change the field, or use another class.")
    assert refused(limits, new=new, trial=True) == []
    cause = sentence.removesuffix(", a limit of class gold. Change the field, or use another class.")
    assert warned(limits, new=new, trial=True) == [f"{cause}, {LATER} Change the field, or use another class."]


@pytest.mark.parametrize(("limits", "spec"), WITHIN, ids=_case)
def test_trial_does_not_warn_about_allowed_specs(limits: Object, spec: Object) -> None:
    new = resource(**spec)
    assert (refused(limits, new=new, trial=True), warned(limits, new=new, trial=True)) == ([], [])


def test_key_in_env_does_not_replace_a_required_secret() -> None:
    reference = {"secretKeyRef": {"name": "none", "key": "k", "optional": True}}
    new = resource(engine={"env": [{"name": "VLLM_API_KEY", "valueFrom": reference}]})
    (sentence,) = refused({"apiKeyRequired": True}, new=new)
    assert sentence.startswith("spec.server.apiKeySecretRef must be set (limits.apiKeyRequired)")


def test_policy_checks_the_spec_and_operator_the_rendered_pod() -> None:
    limits = {"images": ["registry.example.com/"]}
    # The spec names no image. The image of the installation, which the class forbids, is only in the rendered pod.
    rendered = desired_revision(inference(), (), DEFAULTS)
    assert (refused(limits), warned(limits)) == ([], [])
    problem = judged(limits, rendered)
    assert problem is not None
    assert problem.message.startswith("spec.server.image ")


def test_trial_warns_even_about_unchanged_resources() -> None:
    new = resource(replicas=3)
    assert warned({"maxReplicas": 2}, new, new) == []
    assert warned({"maxReplicas": 2}, new, new, trial=True) == [
        f"spec.replicas 3 is above 2 (limits.maxReplicas), {LATER} Change the field, or use another class."
    ]


def test_open_network_access_is_refused_during_a_trial() -> None:
    opened = resource(**OPEN)
    (sentence,) = refused({}, resource(), opened, trial=True)
    assert sentence.startswith("spec.networkAccess.from Everyone lets every namespace reach the model port")
    assert warned({}, resource(), opened, trial=True) == []
    assert refused({"allowAllClients": True}, resource(), opened, trial=True) == []


def test_trial_applies_only_in_selected_namespaces() -> None:
    (sentence,) = refused({}, trial=True, namespaces={"matchLabels": {"team": "chat"}})
    assert sentence.startswith("spec.className gold is not for namespace models")
    assert warned({}, trial=True, namespaces={"matchLabels": {"team": "chat"}}) == []


def permission_warnings(**spec: Any) -> list[str]:
    """Return the warnings for a resource without a class."""
    new = resource(**spec)
    del new["spec"]["className"]
    return messages(POLICIES["permission-warnings"], new)


PERMITTED = [each for each in NEEDS_PERMISSION if each[0] != "allowAllClients"]
NONE_NEEDED: Object = {
    "engine": {"env": [{"name": "HABANA_VISIBLE_DEVICES", "value": "none"}, {"name": "MY_LD_PATH", "value": "/x"}]},
    "pod": {
        "annotations": {"prometheus.io/scrape": "true", "inference.gaudi.dev/a": "b"},
        "priorityClassName": "my-system-",
        "tolerations": [{"key": "habana.ai/gaudi", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
    },
}


@pytest.mark.parametrize(("limit", "permitted", "spec", "cause"), NEEDS_PERMISSION, ids=lambda each: str(each)[:20])
def test_missing_permission_causes_a_warning_without_a_class(
    limit: str, permitted: object, spec: Object, cause: str
) -> None:
    (sentence,) = permission_warnings(**spec)
    assert sentence.startswith(cause)
    assert "spec.className is left out, so the operator runs such a spec only if a default class allows it" in sentence


@pytest.mark.parametrize(("limit", "permitted", "spec", "cause"), PERMITTED, ids=lambda each: str(each)[:20])
def test_missing_permission_of_the_class_causes_a_warning(
    limit: str, permitted: object, spec: Object, cause: str
) -> None:
    new = resource(**spec)
    (sentence,) = warned({}, new=new)
    assert sentence.startswith(f"{cause}, but class gold does not allow this.")
    assert any(
        each.startswith(f"{cause}, but class gold does not") for each in warned({limit: []}, new=new, trial=True)
    )
    assert warned({limit: permitted}, new=new) == warned({limit: permitted}, new=new, trial=True) == []


def test_setting_within_the_namespace_needs_no_permission() -> None:
    assert (permission_warnings(**NONE_NEEDED), warned({}, new=resource(**NONE_NEEDED))) == ([], [])
