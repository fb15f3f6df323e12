"""Class limits on what the operator renders, with the exact messages."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.core.admission.pod_policy import (
    LIMITS,
    PERMISSIONS,
    PodPolicy,
    matches_policy_image_prefix,
    matches_policy_path_prefix,
)
from gaudi_operator.core.children.child_actions import limited_children
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import judged
from tests.unit.operator.core.limit_cases import (
    BEYOND,
    CONTROL_PLANE,
    FOLDER,
    NEEDS_PERMISSION,
    SAFE_TO_EVICT,
    WITHIN,
)
from tests.unit.operator.core.resources import ANY_HOST_PATH, CARD, DEFAULTS, inference

VLLM = {"name": "vllm"}
KEY = {"name": "keys", "key": "api"}
OPTIONAL_KEY = {**KEY, "optional": True}


def found(limits: dict[str, Any], enforcement: str = "Enforce", **spec: Any) -> Problem | None:
    """Return the violation of these limits by what the operator renders for a small resource."""
    return judged(limits, choose_desired_revision(inference(**spec), (), DEFAULTS), enforcement, **spec)


def test_every_limit_has_a_rule() -> None:
    assert {row.limit for row in (*LIMITS, *PERMISSIONS)} == ClassLimits.model_fields.keys()


def named(limits: dict[str, Any]) -> str:
    """Return the text with which a message names the limit. `limits` has one entry."""
    ((name, value),) = limits.items()
    return f"(limits.{name}: {', '.join(value) or 'none'})" if isinstance(value, list) else f"limits.{name}"


def test_sentence_names_field_limit_and_class() -> None:
    assert found({"priorityClasses": ["low", "usual"]}, pod={"priorityClassName": "high"}) == Problem(
        "ForbiddenByClass",
        "spec.pod.priorityClassName high is not an allowed value (limits.priorityClasses: low, usual), a limit of "
        "class gold. Change the field, or use another class.",
    )


def variable(name: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": "1"}]}


def spec_with_arguments(*arguments: str) -> dict[str, Any]:
    return {"engine": {"name": "vllm", "extraArgs": [*arguments]}}


def spec_with_toleration(key: str) -> dict[str, Any]:
    return {"pod": {"tolerations": [{"key": key, "operator": "Exists"}]}}


def sidecar(**fields: Any) -> dict[str, Any]:
    return {"pod": {"sidecars": [{"name": "log", "image": "log:1", **fields}]}}


CARDS = "spec.parallelism: a replica needs 8 cards, which is above 7 "
SETTING = "spec.engine.settings"
NEARLY_WITHIN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"hostPaths": ["/models/ab"]}, {"model": FOLDER}, "spec.model.source.hostPath /models/a "),
    ({"hostPaths": []}, {"model": FOLDER}, "spec.model.source.hostPath /models/a "),
    ({"serviceAccounts": []}, {"pod": {"serviceAccountName": "tiny-2"}}, "spec.pod.serviceAccountName tiny-2 "),
    ({"serviceAccounts": []}, {"pod": {"serviceAccountName": "tinx"}}, "spec.pod.serviceAccountName tinx "),
    ({"tolerations": ["gaudi"]}, spec_with_toleration("gaudi-2"), "spec.pod.tolerations gaudi-2 "),
    ({"tolerations": ["gaudi-2"]}, spec_with_toleration("gaudi"), "spec.pod.tolerations gaudi "),
    (
        {"annotationPrefixes": ["team/", "shop/"]},
        {"pod": {"annotations": {"my-team/a": "b"}}},
        "spec.pod.annotations my-team/a ",
    ),
    ({"environmentVariables": ["ABD"]}, {"engine": variable("ABC")}, "spec.engine.env ABC "),
    ({"environmentVariables": ["B*"]}, {"engine": variable("AB")}, "spec.engine.env AB "),
    ({"environmentVariables": []}, sidecar(**variable("HOME")), "spec.pod.sidecars log: env HOME "),
    ({"extraArguments": ["--of-a"]}, spec_with_arguments("--of-a-plugin"), "spec.engine.extraArgs --of-a-plugin "),
    ({"apiKeyRequired": True}, sidecar(**variable("VLLM_API_KEY")), "spec.server.apiKeySecretRef must be set "),
    (
        {"apiKeyRequired": True},
        {"engine": {"env": [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": OPTIONAL_KEY}}]}},
        "spec.server.apiKeySecretRef must be set ",
    ),
    (
        {"apiKeyRequired": True},
        {"engine": {"env": [{"name": "VLLM_API_KEY", "value": ""}]}},
        "spec.server.apiKeySecretRef must be set ",
    ),
    ({"maxReplicas": 0}, {"replicas": 0, "autoscaling": {"maxReplicas": 4}}, "spec.replicas 1 is above 0 "),
    (
        {"maxCards": 7},
        {"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 2}},
        CARDS,
    ),
    ({"trustRemoteCode": False}, spec_with_arguments("--a-parser-plugin=/a"), f"{SETTING} --a-parser-plugin "),
    ({"trustRemoteCode": False}, {"engine": variable("GC_KERNEL_PATH")}, f"{SETTING} GC_KERNEL_PATH "),
    ({"modelSources": ["PersistentVolumeClaim"]}, {"model": FOLDER}, "spec.model.source.hostPath "),
    (
        {"serviceAnnotationPrefixes": ["team/", "shop/"]},
        {"service": {"annotations": {"team/a": "b", "my-team/a": "b"}}},
        "spec.service.annotations my-team/a ",
    ),
    ({"serviceAnnotationPrefixes": []}, {"service": {"annotations": {"a": "b"}}}, "spec.service.annotations a "),
    (
        {},
        {"networkAccess": {"from": "Clients", "clients": [{"ipBlock": {"cidr": "10.0.0.0/7"}}]}},
        "spec.networkAccess lets ",
    ),
    ({}, {"networkAccess": {"from": "Clients", "clients": [{"ipBlock": {"cidr": "any"}}]}}, "spec.networkAccess lets "),
    ({}, {"networkAccess": {"from": "Clients", "clients": [{"ipBlock": "10.0.0.0/8"}]}}, "spec.networkAccess lets "),
    ({}, {"networkAccess": {"from": "Clients", "clients": [{"namespaceSelector": "all"}]}}, "spec.networkAccess lets "),
    (
        {"images": ["runtime"]},
        {"pod": {"volumes": [{"name": "a", "image": {}}]}},
        "spec.pod.volumes a: image ",
    ),
    ({"images": ["runtime"]}, sidecar(image=None), "spec.pod.sidecars log: image "),
    ({"images": ["runtime"]}, sidecar(image={"name": "runtime"}), "spec.pod.sidecars log: image "),
    ({"environmentVariables": ["A"]}, sidecar(env=[{"value": "b"}]), "spec.pod.sidecars log: env "),
    *(
        ({"maxCards": 7}, sidecar(resources={"limits": {"habana.ai/gaudi": amount}}), CARDS)
        for amount in ("8", "8000m", "8e00000", ".008k")
    ),
    *(
        (
            {"trustRemoteCode": False},
            {"engine": {**VLLM, "settings": {"--trust-remote-code": value}}},
            "spec.engine.settings --trust-remote-code is not allowed ",
        )
        for value in ("True", "1", "f")
    ),
]
"""Values just beyond a limit, in the form of BEYOND."""

JUST_WITHIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"images": ["registry.test/runtime:1"]}, {"server": {"image": "registry.test/runtime:1"}}),
    ({"hostPaths": ["/models/a"]}, {"model": FOLDER}),
    ({"annotationPrefixes": ["shop/", "team/"]}, {"pod": {"annotations": {"team/a": "b"}}}),
    ({"environmentVariables": ["HOME_X"]}, {"engine": variable("HOME_X")}),
    ({"extraArguments": ["--of-a-plugin"]}, spec_with_arguments("--of-a-plugin", "-1")),
    ({"extraArguments": ["--of-a-plugin"]}, spec_with_arguments("--of-a-plugin", "a--b")),
    ({"trustRemoteCode": False}, {"engine": {**VLLM, "settings": {"--trust-remote-code": "False"}}}),
    ({"modelSources": ["HostPath"]}, {"model": FOLDER, "recipeCache": {}}),
    ({"maxCards": 8}, {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 8}}),
    ({"maxCards": 8}, sidecar(resources={"limits": {"habana.ai/gaudi": "many", "memory": "1Gi"}})),
    ({"serviceAccounts": []}, {"pod": {"serviceAccountName": "tiny"}}),
    ({}, {"networkAccess": {"from": "Clients", "clients": [{"podSelector": "all"}, {}]}}),
    ({"apiKeyRequired": True}, {"engine": variable("VLLM_API_KEY")}),
    ({"apiKeyRequired": True}, {"engine": {"env": [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": KEY}}]}}),
]
"""Values just within a limit, in the form of WITHIN."""


@pytest.mark.parametrize(
    ("limits", "spec", "field"),
    [*BEYOND, *NEARLY_WITHIN],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_value_beyond_a_limit_is_refused(limits: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    problem = found(limits, **spec)
    assert problem is not None
    assert problem.reason == "ForbiddenByClass"
    assert problem.message.startswith(field)
    assert not limits or named(limits) in problem.message


@pytest.mark.parametrize(("limits", "spec"), [each[:2] for each in BEYOND if "allowAllClients" not in each[0]], ids=str)
def test_class_that_warns_refuses_no_value_beyond_a_limit(limits: dict[str, Any], spec: dict[str, Any]) -> None:
    assert found(limits, "Warn", **spec) is None


def without_class(**spec: Any) -> Problem | None:
    asked = inference(**spec)
    revision = choose_desired_revision(asked, (), DEFAULTS)
    return PodPolicy(asked, ANY_HOST_PATH).find_violation(revision, limited_children(asked, DEFAULTS))


PERMISSION_CASES = pytest.mark.parametrize(
    ("limit", "permitted", "spec", "message"), NEEDS_PERMISSION, ids=lambda each: str(each)[:20]
)


@PERMISSION_CASES
def test_setting_without_permission_needs_a_class(
    limit: str, permitted: object, spec: dict[str, Any], message: str
) -> None:
    assert without_class(**spec) == Problem(
        "NeedsClass", f"{message}. Remove the setting, or use a class that allows it."
    )


@PERMISSION_CASES
@pytest.mark.parametrize("enforcement", ["Enforce", "Warn"])
def test_class_that_permits_a_setting_allows_it(
    limit: str, permitted: object, spec: dict[str, Any], message: str, enforcement: str
) -> None:
    assert found({limit: permitted}, enforcement, **spec) is None


@PERMISSION_CASES
def test_class_that_warns_still_requires_permissions(
    limit: str, permitted: object, spec: dict[str, Any], message: str
) -> None:
    problem = found({}, "Warn", **spec)
    assert problem is not None
    assert (problem.reason, problem.message.startswith(message)) == ("ForbiddenByClass", True)


@pytest.mark.parametrize(
    ("limits", "spec"),
    [*WITHIN, *JUST_WITHIN],
    ids=lambda each: ",".join(each),
)
def test_value_within_the_limits_is_allowed(limits: dict[str, Any], spec: dict[str, Any]) -> None:
    assert found(limits, **spec) is None


SOURCES: dict[str, dict[str, Any]] = {
    "HuggingFace": {"huggingFace": {"repo": "a/b"}},
    "PersistentVolumeClaim": {"persistentVolumeClaim": {"claimName": "models", "path": "tiny"}},
    "HostPath": {"hostPath": {"path": "/models/a"}},
    "OciImage": {"ociImage": {"reference": "registry.test/model:1"}},
}


@pytest.mark.parametrize("kind", SOURCES)
def test_each_source_of_models_is_limited_by_its_name(kind: str) -> None:
    model = {"source": {"persistentVolumeClaim": None, **SOURCES[kind]}}
    assert found({"modelSources": [kind]}, model=model) is None
    problem = found({"modelSources": [each for each in SOURCES if each != kind]}, model=model)
    assert problem is not None
    assert problem.message.startswith(f"spec.model.source.{next(iter(SOURCES[kind]))} is not an allowed value ")


def test_sentence_names_the_required_node_label() -> None:
    problem = found({"nodeSelector": {"pool": "a"}}, pod={"nodeSelector": {"pool": "b"}})
    assert problem is not None
    assert problem.message.startswith(
        'spec.pod.nodeSelector must contain pool: "a" (limits.nodeSelector), a limit of class gold'
    )


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
    assert problem.message.startswith(f"spec.pod.{field} c is not an allowed value (limits.{limit}: a, b), ")


def test_value_of_a_node_label_must_match() -> None:
    assert found({"nodeSelector": {"pool": "a", "poo": "b"}}, pod={"nodeSelector": {"pool": "a", "poo": "b"}}) is None
    assert found({"nodeSelector": {"pool": "a"}}, pod={"nodeSelector": {"pool": "ab"}}) is not None


def test_class_without_a_list_still_requires_permissions() -> None:
    assert found({}, pod={"annotations": {SAFE_TO_EVICT: "false"}}) == Problem(
        "ForbiddenByClass",
        f"spec.pod.annotations {SAFE_TO_EVICT} controls how the pod runs or connects (limits.annotationPrefixes), a "
        "limit of class gold. Change the field, or use another class.",
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
def test_image_prefix_matches_complete_path_parts(image: str, prefix: str, starts: bool) -> None:
    assert matches_policy_image_prefix(image, prefix) is starts


def test_other_tolerations_do_not_allow_control_plane_nodes() -> None:
    limits = {"tolerations": ["gaudi"]}
    problem = found(limits, pod={"nodeSelector": {CONTROL_PLANE: ""}})
    assert problem is not None
    assert problem.message.startswith(f"spec.pod.nodeSelector {CONTROL_PLANE} ")


def test_no_class_allows_a_toleration_without_a_key() -> None:
    roles = ("control-plane", "master", "etcd")
    for limits in ({}, {"tolerations": [f"node-role.kubernetes.io/{role}" for role in roles]}):
        problem = found(limits, pod={"tolerations": [{"operator": "Exists"}]})
        assert problem is not None
        assert problem.reason == "ForbiddenByClass"


@pytest.mark.parametrize(
    ("path", "prefix", "below"),
    [
        ("/models", "/models", True),
        ("/models/llama/", "/models", True),
        ("//models//llama", "/models/", True),
        ("/etc", "/", True),
        ("/models-of-others", "/models", False),
        ("/models/../etc", "/models", False),
        ("/models/..data/llama", "/models", True),
        ("/etc", "/X", False),
        ("models", "/", False),
    ],
)
def test_prefix_matches_complete_folder_names(path: str, prefix: str, below: bool) -> None:
    assert matches_policy_path_prefix(path, prefix) is below
