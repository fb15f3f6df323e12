"""A class in trial reports values that exceed its limits, but refuses only missing permissions."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import GaudiInferenceClass
from gaudi_operator.core.admission.class_trial import trial_violations
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.spec_limits import first_limit_violation
from gaudi_operator.core.classes import ResolvedClass
from gaudi_operator.core.rollout.desired_revision import desired_revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.limit_cases import BEYOND, NEEDS_PERMISSION, WITHIN
from tests.unit.operator.core.resources import ANY_HOST_PATH, DEFAULTS, inference

LIMITED = [each for each in BEYOND if "allowAllClients" not in each[0]]


def platform(limits: dict[str, Any], *, trial: bool = True) -> ResolvedClass:
    return ResolvedClass("gold", GaudiInferenceClass.model_validate(gaudi_class(limits=limits, trial=trial)).spec)


def refused(limits: dict[str, Any], **spec: Any) -> Problem | None:
    """Return the reason why a class in trial refuses a resource with `spec`, or None."""
    asked, found = inference(**spec), platform(limits)
    policy = PodPolicy("models", ANY_HOST_PATH, found, "tiny", asked.spec)
    return policy.find_violation(desired_revision(asked, (), DEFAULTS)) or first_limit_violation(asked.spec, found)


def reported(limits: dict[str, Any], *, trial: bool = True, **spec: Any) -> tuple[str, ...]:
    asked = inference(**spec)
    return trial_violations(asked, desired_revision(asked, (), DEFAULTS), platform(limits, trial=trial))


@pytest.mark.parametrize(("limits", "spec", "field"), LIMITED, ids=lambda each: each if isinstance(each, str) else "")
def test_value_beyond_a_limit_is_reported_and_not_refused(
    limits: dict[str, Any], spec: dict[str, Any], field: str
) -> None:
    assert refused(limits, **spec) is None
    (found,) = reported(limits, **spec)
    assert f"{found} ".startswith(field)


@pytest.mark.parametrize(("limits", "spec"), WITHIN, ids=lambda each: ",".join(each))
def test_value_within_the_limits_is_not_reported(limits: dict[str, Any], spec: dict[str, Any]) -> None:
    assert refused(limits, **spec) is None
    assert reported(limits, **spec) == ()


def test_every_violation_is_reported() -> None:
    assert reported({"maxReplicas": 2, "maxSurge": 1}, replicas=3, rollout={"maxSurge": 2}) == (
        "spec.replicas 3 is above 2 (limits.maxReplicas)",
        "spec.rollout.maxSurge 2 is above 1 (limits.maxSurge)",
    )


def test_enforced_class_has_no_trial_report() -> None:
    assert reported({"maxReplicas": 2}, trial=False, replicas=3) == ()


@pytest.mark.parametrize(("limit", "permitted", "spec", "cause"), NEEDS_PERMISSION, ids=lambda each: str(each)[:20])
def test_trial_does_not_replace_a_permission(limit: str, permitted: object, spec: dict[str, Any], cause: str) -> None:
    others: dict[str, Any] = {} if limit == "allowAllClients" else {limit: []}
    for limits in ({}, others):
        problem = refused(limits, **spec)
        assert problem is not None
        assert problem.reason == "ForbiddenByClass"
        assert cause.removeprefix("variable ") in problem.message
    assert refused({limit: permitted}, **spec) is None
