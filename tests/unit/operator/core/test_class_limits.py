"""The limits of a class over a rendered pod (core/admission/class_limits.py)."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import GaudiInferenceClass
from gaudi_operator.core.admission.class_limits import starts_with
from gaudi_operator.core.admission.classes import Platform
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.spec_limits import why_not_allowed
from gaudi_operator.core.rollout.inputs import revision_inputs, stored_form
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.limit_cases import BEYOND, CONTROL_PLANE, SAFE_TO_EVICT, WITHIN
from tests.unit.operator.core.rendered_pod import template
from tests.unit.operator.core.resources import ANY_HOST_PATH, CARD, inference


def found(limits: dict[str, Any], **spec: Any) -> Problem | None:
    """What a class with these limits has against the rendered pod of a small resource."""
    says = GaudiInferenceClass.model_validate(gaudi_class(limits=limits)).spec
    asked = inference(**spec)
    platform = Platform("gold", says)
    policy = PodPolicy("models", ANY_HOST_PATH, platform, "tiny", asked.spec)
    refused = policy.why_not([template(asked)], stored_form(revision_inputs(asked)))
    return refused or why_not_allowed(asked.spec, platform)


def test_sentence_names_field_limit_and_class() -> None:
    assert found({"priorityClasses": ["low", "usual"]}, pod={"priorityClassName": "high"}) == Problem(
        "ForbiddenByClass",
        "spec.pod.priorityClassName high is not among what is allowed (limits.priorityClasses: low, usual), as class "
        "gold says: change it, or use another class.",
    )


@pytest.mark.parametrize(
    ("limits", "spec", "field"),
    BEYOND,
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_beyond_a_limit_is_refused(limits: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    problem = found(limits, **spec)
    assert problem is not None
    assert problem.reason == "ForbiddenByClass"
    assert problem.message.startswith(field)


@pytest.mark.parametrize(
    ("limits", "spec"),
    WITHIN,
    ids=lambda each: ",".join(each),
)
def test_what_is_within_the_limits_is_allowed(limits: dict[str, Any], spec: dict[str, Any]) -> None:
    assert found(limits, **spec) is None


def test_cards_of_all_pipeline_stages_are_counted() -> None:
    ranks = {"tensor": 2, "pipeline": 4}
    problem = found({"maxCards": 8}, replicas=2, engine={"name": "vllm"}, accelerator=CARD, parallelism=ranks)
    assert problem is not None
    assert problem.message.startswith("spec.replicas 2 asks for 16 cards, above 8 (limits.maxCards)")


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        ("priorityClasses", "priorityClassName"),
        ("runtimeClasses", "runtimeClassName"),
        ("serviceAccounts", "serviceAccountName"),
    ],
)
def test_sentence_names_the_list_of_allowed_names(limit: str, field: str) -> None:
    problem = found({limit: ["a", "b"]}, pod={field: "c"})
    assert problem is not None
    assert problem.message.startswith(f"spec.pod.{field} c is not among what is allowed (limits.{limit}: a, b), ")


def test_value_of_a_node_label_must_be_the_same() -> None:
    assert found({"nodeSelector": {"pool": "a", "poo": "b"}}, pod={"nodeSelector": {"pool": "a", "poo": "b"}}) is None
    assert found({"nodeSelector": {"pool": "a"}}, pod={"nodeSelector": {"pool": "ab"}}) is not None


def test_class_without_a_list_keeps_what_needs_leave() -> None:
    assert found({}, pod={"annotations": {SAFE_TO_EVICT: "false"}}) == Problem(
        "ForbiddenByClass",
        f"spec.pod.annotations {SAFE_TO_EVICT} steers what runs or connects the pod, and class gold does not allow it. "
        "Leave it out, or use another class.",
    )


@pytest.mark.parametrize(
    ("image", "prefix", "starts"),
    [
        ("registry.test/ai/runtime:1", "registry.test/ai", True),
        ("registry.test/ai/runtime:1", "registry.test/ai/", True),
        ("registry.test/ai/runtime:1", "registry.test/ai/runtime", True),
        ("registry.test/ai/runtime:1", "registry.test/ai/runtime:1", True),
        ("registry.test/ai-of-others/runtime:1", "registry.test/ai", False),
        ("registry.test.evil/ai/runtime:1", "registry.test", False),
    ],
)
def test_prefix_of_images_ends_where_a_part_does(image: str, prefix: str, starts: bool) -> None:
    assert starts_with(image, prefix) is starts


def test_template_of_claims_is_refused_where_cards_are_counted() -> None:
    accelerator = {**CARD, "resourceClaimTemplateName": "eight-cards"}
    problem = found({"maxCards": 1}, engine={"name": "vllm"}, accelerator=accelerator)
    assert problem is not None
    assert problem.message.startswith("spec.accelerator.resourceClaimTemplateName eight-cards ")
    assert found({"maxReplicas": 1}, engine={"name": "vllm"}, accelerator=accelerator) is None


def test_other_tolerations_allow_no_control_plane() -> None:
    limits = {"tolerations": ["gaudi"]}
    problem = found(limits, pod={"nodeSelector": {CONTROL_PLANE: ""}})
    assert problem is not None
    assert problem.message.startswith(f"spec.pod.nodeSelector {CONTROL_PLANE} ")
