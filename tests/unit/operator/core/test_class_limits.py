"""The limits of a class over a rendered pod (core/admission/class_limits.py)."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import GaudiInferenceClass
from gaudi_operator.core.admission.class_limits import starts_with
from gaudi_operator.core.admission.classes import Platform
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.rollout.inputs import revision_inputs, stored_form
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import gaudi_class
from tests.unit.operator.core.rendered_pod import template
from tests.unit.operator.core.resources import ANY_HOST_PATH, CARD, inference

SIDECAR: dict[str, Any] = {"name": "log", "image": "docker.io/log:1"}
HUB: dict[str, Any] = {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}}
FOLDER: dict[str, Any] = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models/a"}}}
VLLM: dict[str, Any] = {"name": "vllm"}
KEY = {"apiKeySecretRef": {"name": "keys", "key": "api"}}
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def found(limits: dict[str, Any], **spec: Any) -> Problem | None:
    """What a class with these limits has against the rendered pod of a small resource."""
    says = GaudiInferenceClass.model_validate(gaudi_class(limits=limits)).spec
    asked = inference(**spec)
    policy = PodPolicy("models", ANY_HOST_PATH, Platform("gold", says), "tiny", asked.spec)
    return policy.why_not([template(asked)], stored_form(revision_inputs(asked)))


def test_sentence_names_field_limit_and_class() -> None:
    assert found({"priorityClasses": ["low", "usual"]}, pod={"priorityClassName": "high"}) == Problem(
        "ForbiddenByClass",
        "spec.pod.priorityClassName high is not among what is allowed (limits.priorityClasses: low, usual), as class "
        "gold says: change it, or use another class.",
    )


@pytest.mark.parametrize(
    ("limits", "spec", "field"),
    [
        ({"images": ["registry.test/"]}, {"engine": {"image": "docker.io/x"}}, "spec.engine.image docker.io/x "),
        ({"images": ["runtime"]}, {"pod": {"sidecars": [SIDECAR]}}, "spec.pod.sidecars log: image docker.io/log:1 "),
        (
            {"images": ["runtime"]},
            {"model": {"source": {"persistentVolumeClaim": None, "ociImage": {"reference": "docker.io/model:1"}}}},
            "spec.model.source.ociImage docker.io/model:1 ",
        ),
        ({"hostPaths": ["/data"]}, {"model": FOLDER}, "spec.model.source.hostPath /models/a "),
        ({"runtimeClasses": []}, {"pod": {"runtimeClassName": "kata"}}, "spec.pod.runtimeClassName kata "),
        ({"serviceAccounts": ["a"]}, {"pod": {"serviceAccountName": "b"}}, "spec.pod.serviceAccountName b "),
        ({"nodeSelector": {"pool": "a"}}, {"pod": {"nodeSelector": {"pool": "b"}}}, "spec.pod.nodeSelector pool "),
        ({"nodeSelector": {"pool": "a"}}, {}, "spec.pod.nodeSelector pool "),
        (
            {"tolerations": ["gaudi"]},
            {"pod": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
            "spec.pod.tolerations gpu ",
        ),
        ({"environmentVariables": ["HF_*"]}, {"engine": {"env": [{"name": "A", "value": "b"}]}}, "spec.engine.env A "),
        (
            {"environmentVariables": ["HF_*"]},
            {"engine": {"env": [{"name": "HOME", "value": "/x"}]}},
            "spec.engine.env HOME ",
        ),
        ({"annotationPrefixes": ["team/"]}, {"pod": {"annotations": {"a/b": "c"}}}, "spec.pod.annotations a/b "),
        (
            {"extraArguments": ["--seed"]},
            {"engine": {**VLLM, "extraArgs": ["--of-a-plugin", "1"]}},
            "spec.engine.extraArgs --of-a-plugin ",
        ),
        (
            {"trustRemoteCode": False},
            {"engine": {**VLLM, "settings": {"--trust-remote-code": "true"}}},
            "spec.engine.settings --trust-remote-code ",
        ),
        ({"modelSources": ["OciImage"]}, {"model": HUB}, "spec.model.source.huggingFace "),
        (
            {"modelSources": ["PersistentVolumeClaim"]},
            {"engine": VLLM, "model": {"adapters": [{"name": "sql", "source": {"huggingFace": {"repo": "a/b"}}}]}},
            "spec.model.adapters.source.huggingFace ",
        ),
        ({"apiKeyRequired": True}, {}, "spec.engine.apiKeySecretRef "),
        ({"maxReplicas": 2}, {"replicas": 3}, "spec.replicas 3 is above 2 "),
        (
            {"maxReplicas": 2},
            {"replicas": 2, "autoscaling": {"minReplicas": 1, "maxReplicas": 4, "targetRunningRequests": 8}},
            "spec.autoscaling.maxReplicas 4 is above 2 ",
        ),
        (
            {"maxCards": 8},
            {"replicas": 3, "engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 4}},
            "spec.replicas 3 asks for 12 cards, above 8 ",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_beyond_a_limit_is_refused(limits: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    problem = found(limits, **spec)
    assert problem is not None
    assert problem.reason == "ForbiddenByClass"
    assert problem.message.startswith(field)


@pytest.mark.parametrize(
    ("limits", "spec"),
    [
        ({"images": ["runtime"]}, {}),
        ({"hostPaths": ["/models"]}, {"model": FOLDER}),
        ({"serviceAccounts": []}, {}),
        ({"priorityClasses": ["system-node-critical"]}, {"pod": {"priorityClassName": "system-node-critical"}}),
        ({"tolerations": [CONTROL_PLANE]}, {"pod": {"tolerations": [{"key": CONTROL_PLANE, "operator": "Exists"}]}}),
        ({"annotationPrefixes": [SAFE_TO_EVICT]}, {"pod": {"annotations": {SAFE_TO_EVICT: "false"}}}),
        ({"environmentVariables": ["PYTHON*"]}, {"engine": {"env": [{"name": "PYTHONHASHSEED", "value": "0"}]}}),
        ({"environmentVariables": []}, {"engine": {**VLLM, "settings": {"OMP_NUM_THREADS": "2"}}}),
        ({"extraArguments": ["--of-a-plugin"]}, {"engine": {**VLLM, "extraArgs": ["--of-a-plugin=1"]}}),
        ({"trustRemoteCode": False}, {"engine": {**VLLM, "settings": {"--trust-remote-code": "false"}}}),
        ({"apiKeyRequired": True}, {"engine": KEY}),
        ({"maxCards": 0}, {"replicas": 3}),
        ({"maxReplicas": 3, "modelSources": ["PersistentVolumeClaim"]}, {"replicas": 3}),
    ],
    ids=[
        "image",
        "host path",
        "own account",
        "priority",
        "control plane",
        "annotation",
        "variable",
        "setting",
        "argument",
        "no trust",
        "key",
        "no cards",
        "replicas",
    ],
)
def test_what_is_within_the_limits_is_allowed(limits: dict[str, Any], spec: dict[str, Any]) -> None:
    assert found(limits, **spec) is None


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
