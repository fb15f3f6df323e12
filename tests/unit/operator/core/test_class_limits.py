"""The limits of a class over a rendered pod (core/admission/class_limits.py)."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import GaudiInferenceClass
from gaudi_operator.core.admission.class_limits import most_replicas, starts_with
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.admission.spec_limits import why_not_allowed
from gaudi_operator.core.classes import Platform
from gaudi_operator.core.rollout.revision import Revision, desired_revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.limit_cases import BEYOND, CONTROL_PLANE, FOLDER, HUB, SAFE_TO_EVICT, WITHIN
from tests.unit.operator.core.resources import ANY_HOST_PATH, CARD, DEFAULTS, inference

HARMLESS = desired_revision(inference(), (), DEFAULTS).inputs
"""The inputs of a forged revision."""


def found(limits: dict[str, Any], **spec: Any) -> Problem | None:
    """What a class with these limits has against the rendered pod of a small resource."""
    return judged(limits, desired_revision(inference(**spec), (), DEFAULTS), **spec)


def judged(limits: dict[str, Any], revision: Revision, **spec: Any) -> Problem | None:
    says = GaudiInferenceClass.model_validate(gaudi_class(limits=limits)).spec
    asked, platform = inference(**spec).spec, Platform("gold", says)
    policy = PodPolicy("models", ANY_HOST_PATH, platform, "tiny", asked)
    return policy.why_not(revision) or why_not_allowed(asked, platform)


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


def test_other_tolerations_allow_no_control_plane() -> None:
    limits = {"tolerations": ["gaudi"]}
    problem = found(limits, pod={"nodeSelector": {CONTROL_PLANE: ""}})
    assert problem is not None
    assert problem.message.startswith(f"spec.pod.nodeSelector {CONTROL_PLANE} ")


VLLM = {"name": "vllm"}


@pytest.mark.parametrize(
    ("limits", "spec", "field"),
    [
        (
            {"maxCards": 15},
            {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 8}},
            "spec.replicas 2 asks for 16 cards, above 15 ",
        ),
        (
            {"maxCards": 15},
            {"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 2}},
            "spec.replicas 2 asks for 16 cards, above 15 ",
        ),
        (
            {"maxCards": 15},
            {"engine": VLLM, "accelerator": {**CARD, "resourceClaimTemplateName": "eight"}},
            "spec.accelerator.resourceClaimTemplateName eight ",
        ),
        (
            {"trustRemoteCode": False},
            {"engine": {**VLLM, "settings": {"--trust-remote-code": "true"}}},
            "spec.engine.settings --trust-remote-code ",
        ),
        (
            {"extraArguments": []},
            {"engine": {**VLLM, "extraArgs": ["--of-a-plugin"]}},
            "spec.engine.extraArgs --of-a-plugin ",
        ),
        (
            {"maxStallTimeoutSeconds": 3600},
            {"readiness": {"stallTimeoutSeconds": 7200}},
            "spec.readiness.stallTimeoutSeconds 7200 ",
        ),
        ({"modelSources": ["PersistentVolumeClaim"]}, {"model": HUB}, "spec.model.source.huggingFace "),
        ({"modelSources": ["PersistentVolumeClaim"]}, {"model": FOLDER}, "spec.model.source.hostPath "),
        (
            {"modelSources": ["PersistentVolumeClaim"]},
            {"engine": VLLM, "model": {"adapters": [{"name": "sql", "source": {"huggingFace": {"repo": "a/b"}}}]}},
            "spec.model.adapters.source.huggingFace ",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_forged_inputs_hide_nothing(limits: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    forged = replace(desired_revision(inference(**spec), (), DEFAULTS), inputs=HARMLESS)
    problem = judged(limits, forged, replicas=2)
    assert problem is not None
    assert problem.message.startswith(field)


@pytest.mark.parametrize(
    ("limits", "forged_inputs", "field"),
    [
        (
            {"trustRemoteCode": False},
            {"engine": {"settings": {"--trust-remote-code": "true"}}},
            "spec.engine.settings --trust-remote-code ",
        ),
        (
            {"maxStallTimeoutSeconds": 3600},
            {"stallTimeoutSeconds": 7200},
            "spec.readiness.stallTimeoutSeconds 7200 ",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_inputs_of_a_revision_are_limited_too(
    limits: dict[str, Any], forged_inputs: dict[str, Any], field: str
) -> None:
    revision = desired_revision(inference(), (), DEFAULTS)
    problem = judged(limits, replace(revision, inputs={**revision.inputs, **forged_inputs}))
    assert problem is not None
    assert problem.message.startswith(field)


def test_unreadable_configuration_is_refused_where_a_class_limits() -> None:
    forged = replace(desired_revision(inference(), (), DEFAULTS), config='{"engine": {"settings": 7}}')
    problem = judged({}, forged)
    assert problem is not None
    assert problem.message.startswith("the configuration of the stored revision cannot be read, ")


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({}, 9),
        ({"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 8}}, 2),
        ({"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 2}}, 2),
    ],
)
def test_most_replicas_follow_the_cards_of_pods(spec: dict[str, Any], most: int) -> None:
    limits = GaudiInferenceClass.model_validate(gaudi_class(limits={"maxReplicas": 9, "maxCards": 20})).spec.limits
    forged = replace(desired_revision(inference(**spec), (), DEFAULTS), inputs=HARMLESS)
    assert most_replicas(forged, limits) == most


def test_simulation_that_inputs_hide_is_found() -> None:
    forged = replace(desired_revision(inference(engine={"name": "sim"}), (), DEFAULTS), inputs=HARMLESS)
    assert forged.simulated
