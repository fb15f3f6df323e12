"""The rendered pod template, one fact per test."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.tracing import TraceReceiver
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import GATE, PLAN_HASH_ANNOTATION, RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rendering.container import OWN_VARIABLES
from gaudi_operator.core.rendering.pod_template import PRESTOP_SECONDS, pod_template
from gaudi_runtime.__main__ import PRESTOP_SECONDS as RUNTIME_PRESTOP_SECONDS
from gaudi_runtime.knobs.table import knobs
from tests.unit.operator.core.gaudi_classes import class_settings
from tests.unit.operator.core.rendered_pod import HUB, HUB_WITH_TOKEN, container, environment, spec, template
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference


def test_pod_has_the_readiness_gate() -> None:
    assert spec()["readinessGates"] == [{"conditionType": GATE}]


def test_pod_has_the_plan_hash_annotation() -> None:
    assert template()["metadata"]["annotations"] == {PLAN_HASH_ANNOTATION: "p" * 64}


def test_requested_restart_is_annotated_on_the_pod() -> None:
    asked = inference(annotations={RESTARTED_AT_ANNOTATION: "now"})
    assert template(asked)["metadata"]["annotations"][RESTARTED_AT_ANNOTATION] == "now"


def test_user_labels_cannot_replace_the_operators() -> None:
    labels = template(pod={"labels": {"team": "a", "inference.gaudi.dev/name": "other"}})["metadata"]["labels"]
    assert (labels["team"], labels["inference.gaudi.dev/name"]) == ("a", "tiny")


def test_container_serves_the_mounted_configuration() -> None:
    assert container()["args"] == ["serve", "--config", "/etc/gaudi/config.json"]


def test_pod_security_context_is_restricted() -> None:
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


PULLING = replace(DEFAULTS, image_pull_policy=PullPolicy.ALWAYS, image_pull_secrets=("registry",))


@pytest.mark.parametrize(
    ("spec", "secrets", "policy"),
    [
        ({}, ["registry"], "Always"),
        ({"pod": {"imagePullSecrets": [{"name": "mine"}]}, "server": {"imagePullPolicy": "Never"}}, ["mine"], "Never"),
        ({"server": {"imagePullPolicy": "IfNotPresent"}}, ["registry"], "IfNotPresent"),
    ],
    ids=["left out", "given", "built-in value"],
)
def test_pull_settings_default_to_the_installations(spec: dict[str, Any], secrets: list[str], policy: str) -> None:
    made = pod_template(inference(**spec), "r1", "p" * 64, "tiny-config", PULLING)["spec"]
    assert [each["name"] for each in made["imagePullSecrets"]] == secrets
    assert made["containers"][0]["imagePullPolicy"] == policy


COLLECTOR = TraceReceiver.model_validate({"endpoint": "http://collector.test:4318", "samplingPercent": 10})
TRACED = replace(DEFAULTS, tracing=COLLECTOR)


def variables_of(defaults: InstallationDefaults, **spec: Any) -> dict[str, Any]:
    made = pod_template(inference(**spec), "r1", "p" * 64, "tiny-config", defaults)["spec"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in made["containers"][0]["env"]}


def test_collector_is_set_by_opentelemetry_variables() -> None:
    found = variables_of(TRACED)
    assert found["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "http://collector.test:4318/v1/traces"
    assert found["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert (found["OTEL_TRACES_SAMPLER"], found["OTEL_TRACES_SAMPLER_ARG"]) == ("parentbased_traceidratio", "0.1")
    assert found["OTEL_SERVICE_NAME"] == "tiny"
    assert found["OTEL_RESOURCE_ATTRIBUTES"] == (
        "service.namespace=models,service.version=$(GAUDI_REVISION),"
        "k8s.namespace.name=models,k8s.pod.name=$(GAUDI_POD_NAME)"
    )
    names = list(found)
    # The kubelet expands a reference to a variable only if the variable is earlier in the list.
    assert names.index("GAUDI_POD_NAME") < names.index("OTEL_RESOURCE_ATTRIBUTES")
    assert names.index("GAUDI_REVISION") < names.index("OTEL_RESOURCE_ATTRIBUTES")


def test_collector_of_the_class_replaces_the_installations() -> None:
    found = variables_of(class_settings(tracing={"endpoint": "https://class.test:4317"}))
    assert found["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "https://class.test:4317"
    assert found["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "grpc"
    assert found["OTEL_TRACES_SAMPLER_ARG"] == "1"


@pytest.mark.parametrize(("percent", "share"), [(None, "0.1"), (0, "0"), (25, "0.25")])
def test_sampling_of_the_resource_replaces_that_of_the_collector(percent: int | None, share: str) -> None:
    found = variables_of(TRACED, tracing={"samplingPercent": percent})
    assert found["OTEL_TRACES_SAMPLER_ARG"] == share


def test_pod_without_a_collector_has_no_opentelemetry_variables() -> None:
    assert not [name for name in variables_of(DEFAULTS, tracing={}) if name.startswith("OTEL_")]


EVERY_VARIABLE: tuple[dict[str, Any], ...] = (
    {"model": HUB_WITH_TOKEN},
    {"accelerator": CARD, "engine": {"name": "vllm"}, "server": {"apiKeySecretRef": {"name": "keys", "key": "api"}}},
)


def test_list_of_operator_variables_is_complete() -> None:
    """A class may restrict users' variables, but not the operator's."""
    found = {name for each in EVERY_VARIABLE for name in variables_of(TRACED, **each)}
    # Some knobs are also variables of the operator. A knob that the operator sets counts as a variable of the operator.
    assert found - (knobs().keys() - OWN_VARIABLES) == OWN_VARIABLES


def test_grace_period_covers_prestop_drain_and_exit() -> None:
    assert spec(pod={"drainSeconds": 60})["terminationGracePeriodSeconds"] == 75


def test_prestop_duration_is_the_runtimes() -> None:
    assert PRESTOP_SECONDS == RUNTIME_PRESTOP_SECONDS


def test_prestop_is_the_runtimes_command() -> None:
    assert container()["lifecycle"] == {"preStop": {"exec": {"command": ["gaudi-runtime", "prestop"]}}}


@pytest.mark.parametrize(("probe", "path"), [("readinessProbe", "/readyz"), ("livenessProbe", "/livez")])
def test_probe_uses_the_status_port_with_a_long_timeout(probe: str, path: str) -> None:
    found = container()[probe]
    assert found["httpGet"] == {"path": path, "port": "status", "scheme": "HTTP"}
    assert found["timeoutSeconds"] >= 5


def test_pod_has_no_startup_probe() -> None:
    assert "startupProbe" not in container()


def test_crash_log_is_the_termination_message() -> None:
    assert container()["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_cpu_pod_requests_no_card() -> None:
    assert container()["resources"] == {}


def test_card_pod_requests_a_card_per_rank() -> None:
    found = container(accelerator=CARD, parallelism={"tensor": 8})["resources"]
    assert found["limits"] == {"habana.ai/gaudi": "8"}


def test_claim_template_replaces_the_extended_resource() -> None:
    claimed = {"accelerator": {**CARD, "resourceClaimTemplateName": "cards-of-eight"}}
    assert container(**claimed)["resources"] == {"claims": [{"name": "cards"}]}
    assert spec(**claimed)["resourceClaims"] == [{"name": "cards", "resourceClaimTemplateName": "cards-of-eight"}]


def test_cards_are_added_to_requests_and_limits_of_the_spec() -> None:
    asked = {"requests": {"cpu": "4"}, "limits": {"memory": "8Gi"}}
    assert container(accelerator=CARD, pod={"resources": asked})["resources"] == {
        "limits": {"memory": "8Gi", "habana.ai/gaudi": "1"},
        "requests": {"cpu": "4", "habana.ai/gaudi": "1"},
    }


def test_request_alone_sets_no_limit() -> None:
    asked = {"requests": {"memory": "8Gi"}}
    assert container(pod={"resources": asked})["resources"] == asked


def test_hugepages_add_a_cpu_request() -> None:
    found = container(accelerator={**CARD, "hugepages": "21000Mi"})["resources"]
    assert found["limits"]["hugepages-2Mi"] == "21000Mi"
    assert found["requests"]["cpu"] == "1"


def test_card_image_is_used_only_with_cards() -> None:
    assert container()["image"] == "runtime:1"
    assert container(accelerator=CARD)["image"] == "runtime-hpu:1"
    assert container(server={"image": "mine:1"})["image"] == "mine:1"


def test_users_variable_replaces_the_operators() -> None:
    assert environment(engine={"env": [{"name": "HOME", "value": "/home"}]})["HOME"] == "/home"


def test_knobs_are_set_in_the_environment() -> None:
    settings = {"OMP_NUM_THREADS": "2", "VLLM_DEFRAG_THRESHOLD": "8"}
    on_card, on_cpu = (
        environment(accelerator=CARD, engine={"settings": settings}),
        environment(engine={"settings": settings}),
    )
    assert [found["OMP_NUM_THREADS"] for found in (on_card, on_cpu)] == ["2", "2"]
    assert (on_card["VLLM_DEFRAG_THRESHOLD"], on_card["PT_HPU_LAZY_MODE"]) == ("8", "0")
    assert not {"VLLM_DEFRAG_THRESHOLD", "PT_HPU_LAZY_MODE"} & on_cpu.keys()


def test_hub_token_is_a_secret_reference() -> None:
    assert environment(model=HUB_WITH_TOKEN)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_public_repository_needs_no_token() -> None:
    assert "HF_TOKEN" not in environment(model=HUB)


def test_hub_is_configured_only_for_hub_models() -> None:
    assert environment()["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment(model=HUB)


def test_pods_prefer_to_spread_over_nodes() -> None:
    (found,) = spec()["topologySpreadConstraints"]
    assert (found["topologyKey"], found["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")


def test_placement_is_copied() -> None:
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


KEY = {"apiKeySecretRef": {"name": "chat", "key": "key"}}


@pytest.mark.parametrize("engine", ["vllm", "sim"])
def test_api_key_is_a_secret_reference(engine: str) -> None:
    assert environment(engine={"name": engine}, server=KEY)["VLLM_API_KEY"] == {
        "secretKeyRef": {"name": "chat", "key": "key"}
    }


def test_api_without_a_key_has_no_variable() -> None:
    assert "VLLM_API_KEY" not in environment(engine={"name": "vllm"})


def test_vllm_uses_writable_folders_and_sends_no_statistics() -> None:
    found = environment(engine={"name": "vllm"})
    assert (found["VLLM_CACHE_ROOT"], found["TORCHINDUCTOR_CACHE_DIR"], found["TMPDIR"]) == (
        "/cache/vllm",
        "/cache/recipes/inductor",
        "/tmp",
    )
    assert found["VLLM_NO_USAGE_STATS"] == "1"


def test_card_software_logs_to_a_writable_folder() -> None:
    assert environment(accelerator=CARD)["HABANA_LOGS"] == "/tmp/habana_logs"
    assert (
        environment(accelerator=CARD, engine={"settings": {"HABANA_LOGS": "/cache/logs"}})["HABANA_LOGS"]
        == "/cache/logs"
    )
    assert "HABANA_LOGS" not in environment()


def test_readiness_is_probed_more_often_than_liveness() -> None:
    readiness, liveness = container()["readinessProbe"], container()["livenessProbe"]
    assert (readiness["periodSeconds"], readiness["failureThreshold"]) == (1, 3)
    assert (liveness["periodSeconds"], liveness["failureThreshold"]) == (10, 6)


def test_tolerations_are_copied_unchanged() -> None:
    toleration = {"key": "habana.ai/gaudi", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    assert spec(pod={"tolerations": [toleration]})["tolerations"] == [toleration]
