"""The objects that the chart installs."""

import pytest

from gaudi_operator.api.crd import class_crd, inference_crd
from gaudi_operator.settings import Settings, setting_variable
from scripts.chart_docs import NAMESPACE
from tests.unit.chart.rendering import PREFIX, Object, container_of, environment_of, of_kind, only, pod_of, render

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm

POLICIES = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
CLUSTER_SCOPED = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"} | POLICIES
SET_BY_NOBODY = {"GAUDI_OPERATOR_HTTP_HOST", "KUBECONFIG"}  # the defaults of the image


def test_default_values_render_every_kind(defaults: list[Object]) -> None:
    assert sorted({each["kind"] for each in defaults}) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Deployment",
        "NetworkPolicy",
        "Pod",  # for `helm test`
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def test_every_namespaced_object_is_in_the_release_namespace(defaults: list[Object]) -> None:
    namespaced = [each for each in defaults if each["kind"] not in CLUSTER_SCOPED]
    assert {each["metadata"]["namespace"] for each in namespaced} == {NAMESPACE}


def test_two_replicas_by_default(defaults: list[Object]) -> None:
    assert only(defaults, "Deployment")["spec"]["replicas"] == 2


def test_pods_meet_the_restricted_standard(defaults: list[Object]) -> None:
    security = pod_of(defaults)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container_of(defaults)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_pods_have_no_volumes(defaults: list[Object]) -> None:
    assert "volumes" not in pod_of(defaults)


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
)
def test_probes_use_the_configured_port_and_timings(defaults: list[Object], probe: str, path: str) -> None:
    container = container_of(defaults)
    (port,) = container["ports"]
    assert port["containerPort"] == Settings.model_fields["http_port"].default
    assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert container[probe]["timeoutSeconds"] >= 5


def test_memory_has_a_limit_and_cpu_has_no_limit(defaults: list[Object]) -> None:
    assert container_of(defaults)["resources"]["limits"] == {"memory": "512Mi"}


def test_pods_spread_over_nodes_by_their_own_selector(defaults: list[Object]) -> None:
    (constraint,) = pod_of(defaults)["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"
    assert constraint["labelSelector"] == only(defaults, "Deployment")["spec"]["selector"]


def test_environment_sets_every_setting_of_the_operator(defaults: list[Object]) -> None:
    known = {str(field.validation_alias or setting_variable(name)) for name, field in Settings.model_fields.items()}
    assert set(environment_of(defaults)) == known - SET_BY_NOBODY


def test_default_environment_changes_only_images_and_log_format(
    defaults: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(defaults).items():
        monkeypatch.setenv(name, value if value is not None else NAMESPACE)
    changed = Settings().model_dump(exclude_defaults=True, exclude={"identity"})
    assert changed == {
        "runtime_image": f"{PREFIX}gaudi-runtime:0.1.0",
        "hpu_image": f"{PREFIX}gaudi-runtime-hpu:0.1.0",
        "log_format": "json",
    }


def test_image_prefix_is_added_to_every_default_name() -> None:
    objects = render(image={"prefix": "registry.example.com/ai/"})
    assert container_of(objects)["image"] == "registry.example.com/ai/gaudi-operator:0.1.0"
    assert environment_of(objects)["GAUDI_OPERATOR_RUNTIME_IMAGE"] == "registry.example.com/ai/gaudi-runtime:0.1.0"
    assert environment_of(objects)["GAUDI_OPERATOR_HPU_IMAGE"] == "registry.example.com/ai/gaudi-runtime-hpu:0.1.0"


def test_unnamed_hpu_image_is_empty_without_a_prefix() -> None:
    objects = render(image={"prefix": "", "operator": "operator:1", "runtime": "runtime:1"})
    assert environment_of(objects)["GAUDI_OPERATOR_HPU_IMAGE"] == ""


def test_complete_image_reference_gets_no_prefix() -> None:
    digest = f"operator@sha256:{'0' * 64}"
    assert container_of(render(image={"operator": digest, "prefix": "unused/"}))["image"] == digest


def test_crds_are_the_generated_ones_with_keep_policy(defaults: list[Object]) -> None:
    definitions = of_kind(defaults, "CustomResourceDefinition")
    kept = [definition["metadata"].pop("annotations") for definition in definitions]
    labels = [definition["metadata"].pop("labels") for definition in definitions]
    assert labels == [only(defaults, "Deployment")["metadata"]["labels"]] * 2
    assert kept == [{"helm.sh/resource-policy": "keep"}] * 2
    assert definitions == [inference_crd(), class_crd()]


def test_crd_is_deleted_with_the_chart_unless_kept() -> None:
    definitions = of_kind(render(crds={"keep": False}), "CustomResourceDefinition")
    assert not [each for each in definitions if "annotations" in each["metadata"]]


def test_crd_is_omitted_if_installed_separately() -> None:
    assert not of_kind(render(crds={"install": False}), "CustomResourceDefinition")


def test_disruption_budget_allows_eviction_of_unhealthy_pods(defaults: list[Object]) -> None:
    budget = only(defaults, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_network_policy_allows_only_the_chart_test(defaults: list[Object]) -> None:
    policy = only(defaults, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    (tester,) = rule["from"]
    assert rule["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert tester.keys() == {"podSelector"}
    selected = tester["podSelector"]["matchLabels"]
    assert selected
    assert selected.items() <= only(defaults, "Pod")["metadata"]["labels"].items()


def test_network_policy_allows_the_configured_monitoring_peers() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    (rule,) = only(render(monitoring={"from": [peer]}), "NetworkPolicy")["spec"]["ingress"]
    assert (len(rule["from"]), rule["from"][0]) == (2, peer)


def test_service_monitor_selects_the_metrics_service() -> None:
    objects = render(metrics={"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [each["port"] for each in monitor["spec"]["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ({"podDisruptionBudget": {"enabled": False}}, "PodDisruptionBudget"),
        ({"networkPolicy": {"enabled": False}}, "NetworkPolicy"),
        ({"metrics": {"service": False}}, "Service"),
        ({"rbac": {"create": False}}, "ClusterRoleBinding"),
    ],
)
def test_disabled_object_is_not_rendered(section: Object, kind: str) -> None:
    assert not of_kind(render(**section), kind)


def test_disabled_user_roles_are_omitted() -> None:
    names = [each["metadata"]["name"] for each in of_kind(render(rbac={"aggregateToUserRoles": False}), "ClusterRole")]
    assert names == ["gaudi-operator", "gaudi-operator-classes"]


def test_second_release_shares_no_name_with_the_first(defaults: list[Object]) -> None:
    def names(objects: list[Object]) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in objects}

    assert not names(render("other", crds={"install": False})) & names(defaults)
