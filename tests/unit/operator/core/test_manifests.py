"""What stands in the children; one fact per test."""

from typing import Any

import pytest

from gaudi_operator.core.inference import Inference
from gaudi_operator.core.manifests.config_map import config_map
from gaudi_operator.core.manifests.network_policy import network_policy
from gaudi_operator.core.manifests.pod_disruption_budget import pod_disruption_budget
from gaudi_operator.core.manifests.pod_template import PRESTOP_SECONDS, pod_template
from gaudi_operator.core.manifests.service import endpoint, service
from gaudi_operator.core.names import GATE, PLAN_HASH_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_runtime.prestop import PRESTOP_SECONDS as RUNTIME_PRESTOP_SECONDS
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference


def template(given: Inference | None = None, **overrides: Any) -> dict[str, Any]:
    return pod_template(given or inference(**overrides), "r1", "p" * 64, "tiny-config", DEFAULTS)


def spec(**overrides: Any) -> dict[str, Any]:
    found: dict[str, Any] = template(**overrides)["spec"]
    return found


def container(**overrides: Any) -> dict[str, Any]:
    (only,) = spec(**overrides)["containers"]
    found: dict[str, Any] = only
    return found


def environment(**overrides: Any) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(**overrides)["env"]}


def volume(name: str, **overrides: Any) -> dict[str, Any]:
    return next(each for each in spec(**overrides)["volumes"] if each["name"] == name)


def test_pod_waits_for_our_gate() -> None:
    assert spec()["readinessGates"] == [{"conditionType": GATE}]


def test_pod_bears_the_hash_of_its_plan() -> None:
    assert template()["metadata"]["annotations"] == {PLAN_HASH_ANNOTATION: "p" * 64}


def test_asked_for_restart_stands_on_the_pod() -> None:
    asked = inference(annotations={RESTARTED_AT_ANNOTATION: "now"})
    assert template(asked)["metadata"]["annotations"][RESTARTED_AT_ANNOTATION] == "now"


def test_labels_of_the_user_cannot_hide_ours() -> None:
    labels = template(pod={"labels": {"team": "a", "inference.gaudi.dev/name": "other"}})["metadata"]["labels"]
    assert (labels["team"], labels["inference.gaudi.dev/name"]) == ("a", "tiny")


def test_container_serves_the_mounted_configuration() -> None:
    assert container()["args"] == ["serve", "--config", "/etc/gaudi/config.json"]


def test_pod_may_do_nothing_that_it_does_not_need() -> None:
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec()["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec()["automountServiceAccountToken"] is False


def test_grace_period_covers_prestop_drain_and_exit() -> None:
    assert spec(pod={"drainSeconds": 60})["terminationGracePeriodSeconds"] == 75


def test_prestop_is_as_long_as_the_runtime_says() -> None:
    assert PRESTOP_SECONDS == RUNTIME_PRESTOP_SECONDS


def test_prestop_is_the_command_of_the_runtime() -> None:
    assert container()["lifecycle"] == {"preStop": {"exec": {"command": ["gaudi-runtime", "prestop"]}}}


@pytest.mark.parametrize(("probe", "path"), [("readinessProbe", "/readyz"), ("livenessProbe", "/livez")])
def test_probe_asks_the_status_port_with_patience(probe: str, path: str) -> None:
    found = container()[probe]
    assert found["httpGet"] == {"path": path, "port": "status", "scheme": "HTTP"}
    assert found["timeoutSeconds"] >= 5


def test_start_up_has_no_deadline() -> None:
    assert "startupProbe" not in container()


def test_last_words_of_a_crash_are_kept() -> None:
    assert container()["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_cpu_pod_asks_for_no_card() -> None:
    assert container()["resources"] == {}


def test_card_pod_asks_for_a_card_per_rank() -> None:
    found = container(accelerator=CARD, parallelism={"tensor": 8})["resources"]
    assert found["limits"] == {"habana.ai/gaudi": "8"}


def test_claim_template_replaces_the_extended_resource() -> None:
    claimed = {"accelerator": {**CARD, "resourceClaimTemplateName": "cards-of-eight"}}
    assert container(**claimed)["resources"] == {"claims": [{"name": "cards"}]}
    assert spec(**claimed)["resourceClaims"] == [{"name": "cards", "resourceClaimTemplateName": "cards-of-eight"}]


def test_memory_is_request_and_limit_and_cpu_is_request_only() -> None:
    assert container(pod={"resources": {"cpu": "4", "memory": "8Gi"}})["resources"] == {
        "limits": {"memory": "8Gi"},
        "requests": {"memory": "8Gi", "cpu": "4"},
    }


def test_hugepages_come_with_the_request_that_kubernetes_asks_for() -> None:
    found = container(accelerator={**CARD, "hugepages": "21000Mi"})["resources"]
    assert found["limits"]["hugepages-2Mi"] == "21000Mi"
    assert found["requests"]["cpu"] == "1"


def test_image_of_cards_is_for_cards() -> None:
    assert container()["image"] == "runtime:1"
    assert container(accelerator=CARD)["image"] == "runtime-hpu:1"
    assert container(engine={"image": "mine:1"})["image"] == "mine:1"


def test_users_variable_replaces_ours() -> None:
    assert environment(engine={"env": [{"name": "HOME", "value": "/home"}]})["HOME"] == "/home"


def test_knobs_that_the_engine_reads_stand_in_the_environment() -> None:
    found = environment(accelerator=CARD, engine={"settings": {"LOG_LEVEL_ALL": "3", "VLLM_DEFRAG_THRESHOLD": "8"}})
    assert found["LOG_LEVEL_ALL"] == "3"
    assert found["PT_HPU_LAZY_MODE"] == "1"
    assert "VLLM_DEFRAG_THRESHOLD" not in found


HUB = {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}}
HUB_WITH_TOKEN = {
    "source": {
        "persistentVolumeClaim": None,
        "huggingFace": {"repo": "a/b", "tokenSecretRef": {"name": "hub", "key": "token"}},
    }
}


def test_token_of_the_hub_is_a_reference() -> None:
    assert environment(model=HUB_WITH_TOKEN)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_public_repository_needs_no_token() -> None:
    assert "HF_TOKEN" not in environment(model=HUB)


def test_hub_is_asked_only_where_the_model_comes_from_it() -> None:
    assert environment()["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment(model=HUB)


def mount(path: str, **overrides: Any) -> dict[str, Any] | None:
    return next((each for each in container(**overrides)["volumeMounts"] if each["mountPath"] == path), None)


HUB_AND_CLAIM = {**HUB, "cache": {"persistentVolumeClaim": {"claimName": "shared"}}}


def test_fetched_model_has_a_volume_that_is_written_and_nothing_is_mounted_beside_it() -> None:
    assert mount("/fetched", model=HUB) == {"name": "fetched", "mountPath": "/fetched"}
    assert volume("fetched", model=HUB) == {"name": "fetched", "emptyDir": {}}
    assert mount("/models", model=HUB) is None


def test_mounted_model_needs_no_volume_to_fetch_into() -> None:
    assert mount("/fetched") is None


def test_adapter_of_a_hub_is_fetched_beside_a_mounted_model() -> None:
    adapters = [{"name": "a", "source": {"huggingFace": {"repo": "a/b"}}}]
    fields = {"model": {"adapters": adapters}, "engine": {"name": "vllm"}}
    assert mount("/models", **fields) is not None
    assert mount("/fetched", **fields) is not None
    assert "HF_HUB_OFFLINE" not in environment(**fields)


def test_token_of_an_adapter_serves_where_the_model_needs_none() -> None:
    hub = {"repo": "a/b", "tokenSecretRef": {"name": "hub", "key": "token"}}
    adapters = [{"name": "a", "source": {"huggingFace": hub}}]
    found = environment(model={"adapters": adapters}, engine={"name": "vllm"})
    assert found["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_file_of_a_fetched_model_is_named_by_the_runtime_alone() -> None:
    inc = {"quantization": {"method": "inc", "configFile": "quant.json"}}
    vllm = {"engine": {"name": "vllm"}, "accelerator": CARD}
    assert environment(model=inc, **vllm)["QUANT_CONFIG"] == "/models/tiny/quant.json"
    assert "QUANT_CONFIG" not in environment(model={**HUB, **inc}, **vllm)


def test_pods_share_what_is_fetched_into_a_claim() -> None:
    assert volume("fetched", model=HUB_AND_CLAIM)["persistentVolumeClaim"] == {"claimName": "shared"}


def test_fresh_claim_can_be_written_by_the_user_of_the_pods() -> None:
    found = spec(model=HUB_AND_CLAIM, pod={"runAsUser": 1234})["securityContext"]
    assert (found["fsGroup"], found["fsGroupChangePolicy"]) == (1234, "OnRootMismatch")


def test_folder_of_the_pods_own_has_the_asked_limit() -> None:
    limited = {**HUB, "cache": {"emptyDir": {"sizeLimit": "40Gi"}}}
    assert volume("fetched", model=limited)["emptyDir"] == {"sizeLimit": "40Gi"}
    assert "fsGroup" not in spec(model=limited)["securityContext"]


def test_mounted_model_is_read_only() -> None:
    assert mount("/models") == {"name": "model", "mountPath": "/models", "readOnly": True}


def test_secret_is_a_reference() -> None:
    secret = {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert environment(engine={"env": [{"name": "HF_TOKEN", "valueFrom": secret}]})["HF_TOKEN"] == secret


@pytest.mark.parametrize("path", ["/tmp", "/cache", "/dev/shm"])
def test_writable_place_has_a_volume(path: str) -> None:
    mount = next(each for each in container()["volumeMounts"] if each["mountPath"] == path)
    assert "emptyDir" in volume(mount["name"])
    assert "readOnly" not in mount


def test_shared_memory_is_memory_of_the_asked_size() -> None:
    found = volume("shared-memory", pod={"resources": {"sharedMemory": "2Gi"}})
    assert found["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}


def test_claim_is_mounted_read_only() -> None:
    assert volume("model")["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}


def test_image_volume_holds_the_model() -> None:
    source = {"persistentVolumeClaim": None, "ociImage": {"reference": "model:1"}}
    assert volume("model", model={"source": source})["image"] == {"reference": "model:1", "pullPolicy": "IfNotPresent"}


def test_missing_host_folder_does_not_keep_the_report_from_saying_so() -> None:
    source = {"persistentVolumeClaim": None, "hostPath": {"path": "/models"}}
    assert volume("model", model={"source": source})["hostPath"] == {"path": "/models"}


def test_pods_spread_softly_over_nodes() -> None:
    (found,) = spec()["topologySpreadConstraints"]
    assert (found["topologyKey"], found["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")


def test_placement_is_taken_over() -> None:
    found = spec(
        pod={
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "gaudi", "operator": "Exists"}],
            "priorityClassName": "high",
            "schedulerName": "other",
            "runtimeClassName": "habana",
            "imagePullSecrets": [{"name": "registry"}],
            "serviceAccountName": "theirs",
        }
    )
    assert found["nodeSelector"] == {"zone": "a"}
    assert found["tolerations"] == [{"key": "gaudi", "operator": "Exists"}]
    assert found["imagePullSecrets"] == [{"name": "registry"}]
    assert [found[key] for key in ("priorityClassName", "schedulerName", "runtimeClassName", "serviceAccountName")] == [
        "high",
        "other",
        "habana",
        "theirs",
    ]


def test_child_names_its_controller_without_blocking_its_deletion() -> None:
    assert service(inference())["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "inference.gaudi.dev/v1alpha1",
            "kind": "GaudiInference",
            "name": "tiny",
            "uid": "uid-of-tiny",
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]


def test_config_map_is_immutable_and_named_by_its_content() -> None:
    one, other = config_map(inference().identity, "{}"), config_map(inference().identity, '{"a":1}')
    assert one["immutable"] is True
    assert one["data"] == {"config.json": "{}"}
    assert one["metadata"]["name"] != other["metadata"]["name"]


def test_service_offers_the_model_port_only() -> None:
    assert service(inference(service={"port": 8080}))["spec"]["ports"] == [
        {"name": "http", "port": 8080, "targetPort": "http", "protocol": "TCP"}
    ]


def test_endpoint_is_the_address_of_the_api() -> None:
    assert endpoint(inference()) == "http://tiny.models.svc:80/v1"


@pytest.mark.parametrize(("allowed", "budget"), [(0, 1), (3, 3)])
def test_disruption_budget_lets_at_least_one_go(allowed: int, budget: int) -> None:
    found = pod_disruption_budget(inference(), allowed)["spec"]
    assert (found["maxUnavailable"], found["unhealthyPodEvictionPolicy"]) == (budget, "AlwaysAllow")


def clients(**access: Any) -> list[dict[str, Any]]:
    rules = network_policy(inference(networkAccess=access), DEFAULTS)["spec"]["ingress"]
    return [rule for rule in rules if rule["ports"][0]["port"] == "http"]


def test_status_port_is_open_to_the_operator_only() -> None:
    rules = network_policy(inference(), DEFAULTS)["spec"]["ingress"]
    (found,) = [rule for rule in rules if rule["ports"][0]["port"] == "status"]
    assert found["from"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gaudi-system"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "gaudi-operator"}},
        }
    ]


def test_all_clients_are_all_pods_of_the_cluster() -> None:
    assert [rule["from"] for rule in clients()] == [[{"namespaceSelector": {}}]]


def test_clients_from_outside_the_cluster_have_no_selector() -> None:
    rules = network_policy(inference(service={"type": "LoadBalancer"}), DEFAULTS)["spec"]["ingress"]
    assert rules[0] == {"ports": [{"port": "http", "protocol": "TCP"}]}


def test_no_client_named_means_none() -> None:
    assert clients(allowAllClients=False) == []


def test_named_clients_are_selected_by_namespace_and_pod() -> None:
    named = [{"podLabels": {"app": "chat"}}, {"namespaceLabels": {"team": "a"}}]
    assert clients(allowAllClients=False, clients=named)[0]["from"] == [
        {"podSelector": {"matchLabels": {"app": "chat"}}},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {}},
    ]


ADAPTERS = {
    "adapters": [
        {"name": "sql", "source": {"persistentVolumeClaim": {"claimName": "adapters", "path": "sql"}}},
        {"name": "code", "source": {"ociImage": {"reference": "code:1"}}},
    ]
}


def mounts(**overrides: Any) -> dict[str, Any]:
    return {each["name"]: each for each in container(**overrides)["volumeMounts"]}


def test_each_adapter_is_mounted_read_only() -> None:
    vllm = {"engine": {"name": "vllm"}, "model": ADAPTERS}
    assert volume("adapter-0", **vllm)["persistentVolumeClaim"] == {"claimName": "adapters", "readOnly": True}
    assert volume("adapter-1", **vllm)["image"]["reference"] == "code:1"
    assert mounts(**vllm)["adapter-0"] == {"name": "adapter-0", "mountPath": "/adapters/0", "readOnly": True}


def test_shared_memory_of_one_rank_is_a_gibibyte() -> None:
    assert volume("shared-memory")["emptyDir"] == {"medium": "Memory", "sizeLimit": "1024Mi"}


def test_every_rank_of_several_has_queues_in_shared_memory() -> None:
    found = volume("shared-memory", accelerator=CARD, engine={"name": "vllm"}, parallelism={"tensor": 8})
    assert found["emptyDir"]["sizeLimit"] == "5120Mi"


def test_asked_for_shared_memory_is_taken() -> None:
    assert volume("shared-memory", pod={"resources": {"sharedMemory": "16Gi"}})["emptyDir"]["sizeLimit"] == "16Gi"


KEY = {"apiKeySecretRef": {"name": "chat", "key": "key"}}


@pytest.mark.parametrize("engine", ["vllm", "torch", "sim"])
def test_key_of_the_api_is_a_reference(engine: str) -> None:
    assert environment(engine={"name": engine, **KEY})["VLLM_API_KEY"] == {
        "secretKeyRef": {"name": "chat", "key": "key"}
    }


def test_api_without_a_key_has_no_variable() -> None:
    assert "VLLM_API_KEY" not in environment(engine={"name": "vllm"})


def test_vllm_writes_where_it_may_and_sends_no_statistics() -> None:
    found = environment(engine={"name": "vllm"})
    assert (found["VLLM_CACHE_ROOT"], found["TORCHINDUCTOR_CACHE_DIR"], found["TMPDIR"]) == (
        "/cache/vllm",
        "/cache/inductor",
        "/tmp",
    )
    assert found["VLLM_NO_USAGE_STATS"] == "1"


def test_software_of_a_card_logs_where_it_may_write() -> None:
    assert environment(accelerator=CARD)["HABANA_LOGS"] == "/tmp/habana_logs"
    assert (
        environment(accelerator=CARD, engine={"settings": {"HABANA_LOGS": "/cache/logs"}})["HABANA_LOGS"]
        == "/cache/logs"
    )
    assert "HABANA_LOGS" not in environment()
