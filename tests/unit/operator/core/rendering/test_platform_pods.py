"""Platform settings of pods: placement, volumes, side containers, user; one fact per test."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.pods.volumes import RESERVED_PATHS, RESERVED_VOLUMES
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.rendering.pod_template import worker_template
from tests.unit.operator.core.gaudi_classes import class_settings
from tests.unit.operator.core.rendered_pod import HUB, HUB_WITH_TOKEN, container, environment, spec, template, volume
from tests.unit.operator.core.resources import CARD

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
SHARED = {"name": "shared", "emptyDir": {"sizeLimit": "1Gi"}}
LOG = {"name": "log", "image": "log:1"}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def side_containers(**pod: Any) -> list[dict[str, Any]]:
    """Return the side containers in order."""
    found: list[dict[str, Any]] = spec(pod=pod)["initContainers"]
    return found


def test_pod_without_platform_settings_has_no_platform_fields() -> None:
    found = spec()
    assert found.keys().isdisjoint({"affinity", "initContainers"})
    assert "supplementalGroups" not in found["securityContext"]


def test_affinity_is_copied_unchanged() -> None:
    asked = {"nodeAffinity": {REQUIRED: {}}, "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}, "other": 1}
    assert spec(pod={"affinity": asked})["affinity"] == asked


def test_topology_spread_is_copied_unchanged() -> None:
    ours, theirs = spec(pod={"topologySpreadConstraints": [ZONE]})["topologySpreadConstraints"]
    assert ours == spec()["topologySpreadConstraints"][0]
    assert theirs == ZONE


def test_topology_spread_over_nodes_replaces_the_default() -> None:
    asked = {**ZONE, "topologyKey": "kubernetes.io/hostname"}
    (found,) = spec(pod={"topologySpreadConstraints": [asked]})["topologySpreadConstraints"]
    assert found["whenUnsatisfiable"] == "DoNotSchedule"


@pytest.mark.parametrize(
    "kind",
    [
        {"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.pem"}], "optional": False}},
        {"secret": {"secretName": "certificate", "defaultMode": 288}},
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {
            "projected": {
                "sources": [
                    {"configMap": {"name": "a"}},
                    {"secret": {"name": "b"}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                ]
            }
        },
        {"csi": {"driver": "vault.example", "readOnly": True, "volumeAttributes": {"role": "chat"}}},
        {"unknown": {"a": [1, None]}},
    ],
    ids=lambda kind: next(iter(kind)),
)
def test_volume_is_copied_unchanged(kind: dict[str, Any]) -> None:
    assert volume("mine", pod={"volumes": [{"name": "mine", **kind}]}) == {"name": "mine", **kind}


def test_mount_is_read_only_by_default() -> None:
    asked = [
        {"name": "shared", "mountPath": "/read"},
        {"name": "shared", "mountPath": "/write", "subPath": "in", "readOnly": False},
    ]
    found = container(pod={"volumes": [SHARED], "volumeMounts": asked})["volumeMounts"]
    assert found[-2:] == [
        {"name": "shared", "mountPath": "/read", "readOnly": True},
        {"name": "shared", "mountPath": "/write", "subPath": "in"},
    ]


EVERYTHING = {
    "model": {**HUB, "adapters": [{"name": "a", "source": {"ociImage": {"reference": "a:1"}}}]},
    "engine": {"name": "vllm"},
    "recipeCache": {"ociImage": {"reference": "recipes:1"}},
}


@pytest.mark.parametrize("overrides", [{}, EVERYTHING])
def test_volumes_and_paths_of_the_operator_are_reserved(overrides: dict[str, Any]) -> None:
    for each in container(**overrides)["volumeMounts"]:
        assert each["name"] in RESERVED_VOLUMES or each["name"].startswith("adapter-")
        assert any(f"{each['mountPath']}/".startswith(f"{path}/") for path in RESERVED_PATHS)


def test_writable_pvc_gets_the_pods_group() -> None:
    writes = [{"name": "data", "mountPath": "/data", "readOnly": False}]
    assert "fsGroup" not in spec(pod={"volumes": [CLAIM]})["securityContext"]
    assert spec(pod={"volumes": [CLAIM], "volumeMounts": writes})["securityContext"]["fsGroup"] == 65532
    found = spec(pod={"volumes": [CLAIM], "sidecars": [{**LOG, "volumeMounts": writes}]})
    assert found["securityContext"]["fsGroup"] == 65532


def test_init_containers_precede_sidecars() -> None:
    found = side_containers(sidecars=[LOG], initContainers=[{"name": "fetch", "image": "fetch:1"}])
    assert [(each["name"], each.get("restartPolicy")) for each in found] == [("fetch", None), ("log", "Always")]


@pytest.mark.parametrize("env", ["A=b", {"A": "b"}, ["A"], [{"name": 1}]])
def test_environment_of_a_wrong_type_is_left_to_the_server(env: Any) -> None:
    (found,) = side_containers(sidecars=[{**LOG, "env": env}])
    assert found["env"] in (env, [{"name": "HABANA_VISIBLE_DEVICES", "value": "none"}, *env])


def test_side_containers_have_the_runtimes_security_context() -> None:
    for each in side_containers(sidecars=[LOG], initContainers=[{"name": "fetch", "image": "fetch:1"}]):
        assert each["securityContext"] == container()["securityContext"]


def test_side_container_is_copied_unchanged() -> None:
    asked = {
        **LOG,
        "imagePullPolicy": "Always",
        "command": ["tail"],
        "args": ["-F", "/log/a"],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi", "ephemeral-storage": "1Gi"}},
        "volumeMounts": [{"name": "shared", "mountPath": "/log"}],
    }
    (found,) = side_containers(volumes=[SHARED], sidecars=[asked])
    mounted = [{"name": "shared", "mountPath": "/log", "readOnly": True}]
    env = [{"name": "HABANA_VISIBLE_DEVICES", "value": "none"}, *asked["env"]]
    assert {**asked, "volumeMounts": mounted, "env": env}.items() <= found.items()


def test_containers_without_cards_have_cards_disabled() -> None:
    none = {"name": "HABANA_VISIBLE_DEVICES", "value": "none"}
    pod = {"sidecars": [LOG], "initContainers": [{"name": "fetch", "image": "fetch:1", "env": None}]}
    on_cards, on_cpu = spec(pod=pod, accelerator=CARD), spec(pod=pod)
    for each in (*on_cards["initContainers"], *on_cpu["initContainers"], *on_cpu["containers"]):
        assert none in each["env"]
    (serving,) = on_cards["containers"]
    assert "HABANA_VISIBLE_DEVICES" not in {each["name"] for each in serving["env"]}


def test_allowed_variable_does_not_replace_the_operators() -> None:
    asked = {"name": "HABANA_VISIBLE_DEVICES", "value": "0"}
    (found,) = side_containers(sidecars=[{**LOG, "env": [asked]}])
    assert found["env"] == [asked]


def test_only_the_runtime_gets_the_operators_secrets() -> None:
    server = {"apiKeySecretRef": {"name": "chat", "key": "key"}}
    found = spec(model=HUB_WITH_TOKEN, server=server, pod={"sidecars": [LOG]})
    assert {"HF_TOKEN", "VLLM_API_KEY"} <= {each["name"] for each in found["containers"][0]["env"]}
    assert [each["name"] for each in found["initContainers"][0]["env"]] == ["HABANA_VISIBLE_DEVICES"]


def test_runtime_is_the_only_regular_container() -> None:
    assert [each["name"] for each in spec(pod={"sidecars": [LOG]})["containers"]] == [CONTAINER]


def test_other_pods_of_a_group_have_the_same_settings() -> None:
    leader = template(
        pod={"sidecars": [LOG], "volumes": [SHARED], "affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}
    )
    worker = worker_template(leader)["spec"]
    assert {name: leader["spec"][name] for name in worker} == worker
    assert {"initContainers", "volumes", "affinity"} <= worker.keys()


def test_requests_and_limits_are_those_of_the_spec() -> None:
    asked = {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi"}}
    assert container(pod={"resources": asked})["resources"] == asked


def test_cpu_limit_replaces_the_request_required_by_hugepages() -> None:
    found = container(accelerator={**CARD, "hugepages": "1Gi"}, pod={"resources": {"limits": {"cpu": "500m"}}})[
        "resources"
    ]
    assert found["limits"]["cpu"] == "500m"
    assert "cpu" not in found["requests"]


@pytest.mark.parametrize(("field", "name"), [("cacheSize", "cache"), ("tmpSize", "tmp")])
def test_size_of_an_empty_dir_is_its_limit(field: str, name: str) -> None:
    assert volume(name, defaults=class_settings(**{field: "5Gi"}))["emptyDir"] == {"sizeLimit": "5Gi"}


def test_supplemental_groups_are_those_of_the_pod() -> None:
    assert spec(pod={"supplementalGroups": [3000, 4000]})["securityContext"]["supplementalGroups"] == [3000, 4000]


def test_pods_have_no_capability_by_default() -> None:
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    asked = container(defaults=class_settings(capabilities=["SYS_NICE"]))["securityContext"]
    assert asked["capabilities"] == {"drop": ["ALL"], "add": ["SYS_NICE"]}


def test_sidecars_do_not_get_capabilities_of_the_runtime() -> None:
    side = {"name": "log", "image": "registry.test/side:1"}
    (found,) = spec(defaults=class_settings(capabilities=["SYS_NICE"]), pod={"sidecars": [side]})["initContainers"]
    assert found["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_working_directory_is_writable() -> None:
    found = container(accelerator=CARD)
    assert found["workingDir"] in {each["mountPath"] for each in found["volumeMounts"] if not each.get("readOnly")}


def test_cluster_assigned_user_is_unset_and_not_root() -> None:
    assert spec(defaults=class_settings(userFromCluster=True))["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_cluster_assigned_volume_group_is_unset() -> None:
    found = spec(defaults=class_settings(userFromCluster=True), recipeCache={})["securityContext"]
    assert "fsGroup" not in found
    assert found["fsGroupChangePolicy"] == "OnRootMismatch"


@pytest.mark.parametrize(
    "source",
    [
        {"secretKeyRef": {"name": "s", "key": "k", "optional": True}},
        {"configMapKeyRef": {"name": "c", "key": "k"}},
        {"fieldRef": {"fieldPath": "status.podIP"}},
        {"resourceFieldRef": {"resource": "limits.memory"}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_variable_refers_to_its_source(source: dict[str, Any]) -> None:
    assert environment(engine={"env": [{"name": "A", "valueFrom": source}]})["A"] == source
