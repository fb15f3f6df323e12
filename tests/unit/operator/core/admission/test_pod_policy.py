"""Fields of a pod that need the permission of a class: host paths, groups, variables and annotations."""

from typing import Any

import pytest

from gaudi_operator.core.admission.limited_values import UNSAFE_VARIABLES, is_limited_controlling_annotation
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.installation import InstallationDefaults, InstallationHostPath
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.gaudi_classes import class_settings
from tests.unit.operator.core.rendered_pod import stored, template
from tests.unit.operator.core.resources import DEFAULTS, inference

REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
MODELS = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models/llama"}}}


def violation_of(
    *paths: InstallationHostPath, defaults: InstallationDefaults = DEFAULTS, **spec: Any
) -> Problem | None:
    """Return the policy violation of a small resource with `spec` in the namespace `models`."""
    asked = inference(**spec)
    return PodPolicy(asked, paths).find_violation(choose_desired_revision(asked, (), defaults))


def reason(*paths: InstallationHostPath, **spec: Any) -> str | None:
    found = violation_of(*paths, **spec)
    return found.reason if found else None


def affinity_term(label: str, operator: str) -> dict[str, Any]:
    values = ["a"] if operator == "In" else []
    return {"matchExpressions": [{"key": label, "operator": operator, "values": values}]}


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def test_sentence_names_field_and_advice() -> None:
    assert violation_of(pod={"priorityClassName": "system-node-critical"}) == Problem(
        "NeedsClass",
        "spec.pod.priorityClassName system-node-critical is reserved for the cluster, whose components it could "
        "evict (limits.priorityClasses). Remove the setting, or use a class that allows it.",
    )


CARRIES = "controls how the pod runs or connects (limits.annotationPrefixes)"
PLACES = "allows nodes of the control plane (limits.tolerations)"
LOADS = "loads code or selects cards (limits.environmentVariables)"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/runtime"


def affinity(operator: str, label: str = CONTROL_PLANE) -> dict[str, Any]:
    return {"pod": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [affinity_term(label, operator)]}}}}}


def side_container_pod(kind: str, name: str, variable: str) -> dict[str, Any]:
    return {"pod": {kind: [{"name": name, "image": "x", "env": [{"name": variable, "value": "all"}]}]}}


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ({"pod": {"annotations": {APPARMOR: "unconfined"}}}, f"spec.pod.annotations {APPARMOR}", CARRIES),
        ({"pod": {"tolerations": [{"operator": "Exists"}]}}, "spec.pod.tolerations without a key", PLACES),
        (
            {"pod": {"tolerations": [{"key": CONTROL_PLANE, "operator": "Exists"}]}},
            f"spec.pod.tolerations {CONTROL_PLANE}",
            PLACES,
        ),
        *(
            ({"pod": {"tolerations": [{"key": key, "operator": "Exists"}]}}, f"spec.pod.tolerations {key}", PLACES)
            for key in ("node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd")
        ),
        ({"pod": {"nodeSelector": {CONTROL_PLANE: ""}}}, f"spec.pod.nodeSelector {CONTROL_PLANE}", PLACES),
        (affinity("Exists"), f"spec.pod.affinity {CONTROL_PLANE}", PLACES),
        (affinity("In"), f"spec.pod.affinity {CONTROL_PLANE}", PLACES),
        (
            {
                "pod": {
                    "affinity": {
                        "nodeAffinity": {
                            PREFERRED: [{"weight": 1, "preference": affinity_term(CONTROL_PLANE, "Exists")}]
                        }
                    }
                }
            },
            f"spec.pod.affinity {CONTROL_PLANE}",
            PLACES,
        ),
        ({"engine": {"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}}, "spec.engine.env LD_PRELOAD", LOADS),
        ({"engine": {"env": [{"name": "PYTHONPATH", "value": "/x"}]}}, "spec.engine.env PYTHONPATH", LOADS),
        *(
            (side_container_pod("sidecars", "log", name), f"spec.pod.sidecars log: env {name}", LOADS)
            for name in ("HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES_", "HABANA_VISIBLE_MODULES")
        ),
        (side_container_pod("initContainers", "get", "LD_AUDIT"), "spec.pod.initContainers get: env LD_AUDIT", LOADS),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_field_reaching_beyond_the_namespace_is_refused(spec: dict[str, Any], field: str, why: str) -> None:
    assert violation_of(**spec) == Problem(
        "NeedsClass", f"{field} {why}. Remove the setting, or use a class that allows it."
    )


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"pod": {"annotations": {"prometheus.io/scrape": "true", "team": "chat"}}},
        {"pod": {"tolerations": [{"key": "habana.ai/gaudi", "operator": "Exists"}]}},
        {"pod": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}},
        affinity("DoesNotExist"),
        affinity("Exists", f"{CONTROL_PLANE}-of-a-team"),
        {"pod": {"tolerations": [{"key": f"{CONTROL_PLANE}-of-a-team", "operator": "Exists"}]}},
        {"pod": {"priorityClassName": "production"}},
        {"pod": {"priorityClassName": "no-system-priority"}},
        {"engine": {"env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]}},
    ],
    ids=str,
)
def test_field_limited_to_the_namespace_is_allowed(spec: dict[str, Any]) -> None:
    assert violation_of(**spec) is None


@pytest.mark.parametrize(
    ("annotation", "foreign"),
    [
        ("k8s.v1.cni.cncf.io/networks", True),
        ("v1.multus-cni.io/default-network", True),
        ("io.katacontainers.config.hypervisor.path", True),
        ("cdi.k8s.io/gaudi", True),
        ("seccomp.security.alpha.kubernetes.io/pod", True),
        ("kubernetes.io/egress-bandwidth", True),
        ("k8s.io/x", True),
        ("cilium.io/x", True),
        ("egress.projectcalico.org/x", True),
        ("k8s.ovn.org/x", True),
        ("io.kubernetes.cri-o.userns-mode", True),
        ("io.containerd.rdt-class", True),
        ("io.cilium.proxy-visibility", True),
        ("dev.gvisor.internal.nvproxy", True),
        ("cni.network", True),
        ("notkubernetes.io/x", False),
        ("kubernetes.io.example.com/x", False),
        ("a.kubernetes.io.example.com/x", False),
        ("kubernetes.iX/x", False),
        ("kubernetes/x", False),
        ("example.com/kubernetes.io", False),
        ("my.cni.network/x", False),
        ("cnimate/x", False),
        ("sidecar.istio.io/inject", False),
    ],
)
def test_node_agent_annotations_are_listed(annotation: str, foreign: bool) -> None:
    assert is_limited_controlling_annotation(annotation) is foreign


@pytest.mark.parametrize(
    ("variable", "unsafe"),
    [
        ("LD_PRELOAD", True),
        ("PYTHONPATH", True),
        ("PYTHON", True),
        ("HABANA_VISIBLE_DEVICES", True),
        ("LDAP_URL", False),
        ("PYTHO", False),
        ("MY_PYTHON", False),
        ("HABANA_VISIBLES", False),
        ("HABANA_LOGS", False),
    ],
)
def test_unsafe_variables_are_recognized_by_name(variable: str, unsafe: bool) -> None:
    assert variable.startswith(UNSAFE_VARIABLES) is unsafe


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ((), "HostPathNotAllowed"),
        ((InstallationHostPath("/models"),), None),
        ((InstallationHostPath("/data"),), "HostPathNotAllowed"),
        ((InstallationHostPath("/models", ("models", "chat")),), None),
        ((InstallationHostPath("/models", ("chat",)),), "HostPathNotAllowed"),
        ((InstallationHostPath("/models", ("models-2", "model")),), "HostPathNotAllowed"),
    ],
    ids=["nothing", "prefix", "another prefix", "its namespace", "another namespace", "namespaces named nearly so"],
)
def test_host_path_needs_an_allowed_prefix(allowed: tuple[InstallationHostPath, ...], refused: str | None) -> None:
    assert reason(*allowed, model=MODELS) == refused


def test_host_path_of_an_adapter_is_checked() -> None:
    adapters = [{"name": "sql", "source": {"hostPath": {"path": "/adapters/sql"}}}]
    found = violation_of(engine={"name": "vllm"}, model={"lora": {"adapters": adapters}})
    assert found is not None
    assert found.message == (
        "spec.model.lora.adapters.source.hostPath /adapters/sql is not allowed by this installation in namespace"
        " models. Use persistentVolumeClaim or ociImage, or install the operator with an entry for this path in"
        " allowHostPath."
    )


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ({"path": "/models/a"}, None),
        ({"path": "/etc"}, "HostPathNotAllowed"),
        ({"path": "/models/../etc"}, "HostPathNotAllowed"),
        ({"path": ["/models"]}, "HostPathNotAllowed"),
        ({}, "HostPathNotAllowed"),
        ("/models", "HostPathNotAllowed"),
    ],
    ids=str,
)
def test_host_path_in_a_block_is_checked(source: object, refused: str | None) -> None:
    pod = {"volumes": [{"name": "a", "hostPath": source}]}
    assert reason(InstallationHostPath("/models"), pod=pod) == refused


def test_host_path_pod_with_a_user_keeps_the_default_group() -> None:
    security = template(model=MODELS, pod={"runAsUser": 1000})["spec"]["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"]) == (1000, 65532)


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        ({"runAsUser": 1000}, None),
        ({"supplementalGroups": [6]}, "HostPathNotAllowed"),
        ({"supplementalGroups": [3000]}, None),
    ],
    ids=["own user", "a group of others", "a group of the entry"],
)
def test_allowed_groups_are_those_of_the_host_path_entry(pod: dict[str, Any], refused: str | None) -> None:
    assert reason(InstallationHostPath("/models", groups=(3000,)), model=MODELS, pod=pod) == refused


def test_cluster_assigned_group_is_refused_with_its_reason() -> None:
    assert violation_of(
        InstallationHostPath("/models"), model=MODELS, defaults=class_settings(userFromCluster=True)
    ) == Problem(
        "HostPathNotAllowed",
        "spec.pod: userFromCluster of the class is not allowed in a pod that mounts a folder of the node. Such pods"
        " run with group 65532, so that they cannot read the files of other users. Remove the setting, or install the"
        " operator with the group in allowHostPath.",
    )


@pytest.mark.parametrize(("field", "value"), [("runAsGroup", 6), ("fsGroup", 6), ("supplementalGroups", [6])])
def test_group_of_a_stored_template_is_checked(field: str, value: object) -> None:
    rendered = template(model=MODELS)
    rendered["spec"]["securityContext"][field] = value
    found = PodPolicy(inference(), (InstallationHostPath("/"),)).find_violation(stored(rendered))
    assert found is not None
    assert found.message.partition(" is not allowed in a pod")[0] in (
        "spec.pod: group 6",
        "spec.pod: supplementalGroups 6",
    )
