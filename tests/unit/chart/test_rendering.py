"""What the chart installs."""

import tomllib
from itertools import chain, product
from textwrap import dedent
from typing import Any

import pytest
import yaml

from gaudi_operator.api import door
from gaudi_operator.api.crd import class_definition, custom_resource_definition
from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER
from gaudi_operator.api.v1alpha1.resource import GaudiInference
from gaudi_operator.settings import Settings, variable_of, variables
from scripts.chart_docs import CHART, NAMESPACE, ROOT
from tests.permissions import rules
from tests.unit.chart.rendering import PREFIX, Object, of_kind, only, render

pytestmark = pytest.mark.timeout(1200)  # the very first run builds Helm

POLICIES = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
CLUSTER_SCOPED = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"} | POLICIES
SET_BY_NOBODY = {"GAUDI_OPERATOR_HTTP_HOST", "KUBECONFIG"}  # the image's own defaults


def pod_of(objects: list[Object]) -> Object:
    """Spec of the operator's pods."""
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container_of(objects: list[Object]) -> Object:
    """The operator's container."""
    (container,) = pod_of(objects)["containers"]
    return dict(container)


def environment_of(objects: list[Object]) -> dict[str, str | None]:
    """Environment of the operator's container; None for what the pod's own fields fill in."""
    return {each["name"]: each.get("value") for each in container_of(objects)["env"]}


def single(policy: list[Object]) -> set[tuple[Any, ...]]:
    """Every (group, resource, verb) that policy rules grant."""
    return {each for rule in policy for each in product(rule["apiGroups"], rule["resources"], rule["verbs"])}


def role(objects: list[Object], kind: str, name: str) -> list[Object]:
    """Policy rules of a role."""
    (found,) = (each for each in of_kind(objects, kind) if each["metadata"]["name"] == name)
    return list(found["rules"])


@pytest.fixture(scope="module")
def defaults() -> list[Object]:
    """The release that the documentation installs."""
    return render()


def test_default_has_every_part(defaults: list[Object]) -> None:
    assert sorted({each["kind"] for each in defaults}) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "Deployment",
        "NetworkPolicy",
        "Pod",  # of `helm test`
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
def test_probes_ask_the_settings_port_with_patience(defaults: list[Object], probe: str, path: str) -> None:
    container = container_of(defaults)
    (port,) = container["ports"]
    assert port["containerPort"] == Settings.model_fields["http_port"].default
    assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert container[probe]["timeoutSeconds"] >= 5


def test_memory_is_limited_and_processor_is_not(defaults: list[Object]) -> None:
    assert container_of(defaults)["resources"]["limits"] == {"memory": "512Mi"}


def test_pods_spread_over_nodes_by_their_own_selector(defaults: list[Object]) -> None:
    (constraint,) = pod_of(defaults)["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "kubernetes.io/hostname"
    assert constraint["labelSelector"] == only(defaults, "Deployment")["spec"]["selector"]


def test_environment_sets_every_setting_of_the_operator(defaults: list[Object]) -> None:
    known = {str(field.validation_alias or variable_of(name)) for name, field in Settings.model_fields.items()}
    assert set(environment_of(defaults)) == known - SET_BY_NOBODY


def test_default_environment_gives_the_operators_own_defaults(
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


def test_chart_and_images_have_the_packages_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {project["version"]}


def test_image_prefix_stands_before_every_default_name() -> None:
    objects = render(image={"prefix": "registry.example.com/ai/"})
    assert container_of(objects)["image"] == "registry.example.com/ai/gaudi-operator:0.1.0"
    assert environment_of(objects)["GAUDI_OPERATOR_RUNTIME_IMAGE"] == "registry.example.com/ai/gaudi-runtime:0.1.0"
    assert environment_of(objects)["GAUDI_OPERATOR_HPU_IMAGE"] == "registry.example.com/ai/gaudi-runtime-hpu:0.1.0"


def test_without_a_prefix_only_named_images_are_used() -> None:
    objects = render(image={"prefix": "", "operator": "operator:1", "runtime": "runtime:1"})
    assert environment_of(objects)["GAUDI_OPERATOR_HPU_IMAGE"] == ""


def test_image_reference_is_taken_whole() -> None:
    digest = f"operator@sha256:{'0' * 64}"
    assert container_of(render(image={"operator": digest, "prefix": "unused/"}))["image"] == digest


def test_definition_is_the_generated_one_and_kept(defaults: list[Object]) -> None:
    definitions = of_kind(defaults, "CustomResourceDefinition")
    kept = [definition["metadata"].pop("annotations") for definition in definitions]
    labels = [definition["metadata"].pop("labels") for definition in definitions]
    assert labels == [only(defaults, "Deployment")["metadata"]["labels"]] * 2
    assert kept == [{"helm.sh/resource-policy": "keep"}] * 2
    assert definitions == [custom_resource_definition(), class_definition()]


def test_definition_goes_with_the_chart_where_it_is_not_kept() -> None:
    definitions = of_kind(render(crds={"keep": False}), "CustomResourceDefinition")
    assert not [each for each in definitions if "annotations" in each["metadata"]]


def test_definition_is_left_out_where_somebody_else_installs_it() -> None:
    assert not of_kind(render(crds={"install": False}), "CustomResourceDefinition")


def test_cluster_rights_are_those_of_the_documentation(defaults: list[Object]) -> None:
    granted = (role(defaults, "ClusterRole", name) for name in ("gaudi-operator", "gaudi-operator-classes"))
    assert single(list(chain.from_iterable(granted))) == single(rules("cluster"))


def test_lease_rights_are_those_of_the_documentation(defaults: list[Object]) -> None:
    assert single(role(defaults, "Role", "gaudi-operator-leader")) == single(rules("namespace"))


def test_lease_rights_are_for_the_operators_lease_only(defaults: list[Object]) -> None:
    lease = environment_of(defaults)["GAUDI_OPERATOR_LEASE_NAME"]
    named = [rule for rule in role(defaults, "Role", "gaudi-operator-leader") if rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in named] == [[lease]]


def test_operator_reads_no_secrets_and_uses_no_wildcards(defaults: list[Object]) -> None:
    granted = single(role(defaults, "ClusterRole", "gaudi-operator"))
    assert not {each for each in granted if "*" in each or "secrets" in each}


def test_watched_namespaces_have_rights_in_these_only() -> None:
    objects = render(watchNamespaces=["team-a", "team-b"])
    bindings = [each for each in of_kind(objects, "RoleBinding") if each["roleRef"]["kind"] == "ClusterRole"]
    assert [each["metadata"]["namespace"] for each in bindings] == ["team-a", "team-b"]
    assert [each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")] == ["gaudi-operator-classes"]
    assert environment_of(objects)["GAUDI_OPERATOR_WATCH_NAMESPACES"] == "team-a,team-b"


def test_role_of_classes_reads_them_and_nothing_else(defaults: list[Object]) -> None:
    granted = single(role(defaults, "ClusterRole", "gaudi-operator-classes"))
    assert granted == {("inference.gaudi.dev", "gaudiinferenceclasses", verb) for verb in ("get", "list", "watch")}


def test_viewers_only_read(defaults: list[Object]) -> None:
    verbs = {verb for _, _, verb in single(role(defaults, "ClusterRole", "gaudi-operator-view"))}
    assert verbs == {"get", "list", "watch"}


def test_editors_never_write_status(defaults: list[Object]) -> None:
    resources = {resource for _, resource, _ in single(role(defaults, "ClusterRole", "gaudi-operator-edit"))}
    assert resources == {"gaudiinferences", "gaudiinferences/scale"}


def test_existing_service_account_is_used_and_bound() -> None:
    objects = render(serviceAccount={"create": False, "name": "mine"})
    assert not of_kind(objects, "ServiceAccount")
    assert pod_of(objects)["serviceAccountName"] == "mine"
    assert {each["subjects"][0]["name"] for each in of_kind(objects, "ClusterRoleBinding")} == {"mine"}


def test_disruption_budget_lets_a_broken_pod_go(defaults: list[Object]) -> None:
    budget = only(defaults, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_network_policy_leaves_one_port_open(defaults: list[Object]) -> None:
    policy = only(defaults, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]


def test_network_policy_names_who_may_reach_it() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    assert only(render(networkPolicy={"from": [peer]}), "NetworkPolicy")["spec"]["ingress"][0]["from"][0] == peer


def test_service_monitor_finds_the_metrics_service() -> None:
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
def test_part_that_is_switched_off_is_left_out(section: Object, kind: str) -> None:
    assert not of_kind(render(**section), kind)


def test_user_roles_are_left_out_where_not_wanted() -> None:
    names = [each["metadata"]["name"] for each in of_kind(render(rbac={"aggregateToUserRoles": False}), "ClusterRole")]
    assert names == ["gaudi-operator", "gaudi-operator-classes"]


def test_second_release_shares_no_name_with_the_first(defaults: list[Object]) -> None:
    def names(objects: list[Object]) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in objects}

    assert not names(render("other", crds={"install": False})) & names(defaults)


def test_pod_settings_of_the_installation_reach_the_pod() -> None:
    tolerations = [{"key": "infra", "operator": "Exists"}]
    objects = render(
        priorityClassName="system-cluster-critical",
        nodeSelector={"role": "infra"},
        tolerations=tolerations,
        image={"pullSecrets": [{"name": "registry"}]},
        podLabels={"team": "ai"},
        podAnnotations={"note": "x"},
    )
    pod, metadata = pod_of(objects), only(objects, "Deployment")["spec"]["template"]["metadata"]
    assert (pod["priorityClassName"], pod["nodeSelector"]) == ("system-cluster-critical", {"role": "infra"})
    assert (pod["tolerations"], pod["imagePullSecrets"]) == (tolerations, [{"name": "registry"}])
    assert (metadata["labels"]["team"], metadata["annotations"]) == ("ai", {"note": "x"})


def test_strategy_is_that_of_kubernetes_unless_given(defaults: list[Object]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert "strategy" not in only(defaults, "Deployment")["spec"]
    assert only(render(strategy=strategy), "Deployment")["spec"]["strategy"] == strategy


def test_security_contexts_are_changed_field_by_field() -> None:
    """Null takes a field out, as where a cluster assigns the user."""
    objects = render(
        podSecurityContext={"runAsUser": None, "runAsGroup": None, "fsGroup": 7},
        securityContext={"seLinuxOptions": {"type": "spc_t"}},
    )
    assert pod_of(objects)["securityContext"] == {
        "runAsNonRoot": True,
        "fsGroup": 7,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container_of(objects)["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}
    assert container_of(objects)["securityContext"]["readOnlyRootFilesystem"] is True


def test_extras_reach_the_operators_container() -> None:
    variable = {"name": "SSL_CERT_FILE", "value": "/ca/ca.pem"}
    volume = {"name": "ca", "configMap": {"name": "company-ca"}}
    mounted = {"name": "ca", "mountPath": "/ca", "readOnly": True}
    argument = "--http-host=::"
    objects = render(extraEnv=[variable], extraArgs=[argument], extraVolumes=[volume], extraVolumeMounts=[mounted])
    container = container_of(objects)
    assert container["env"][-1] == variable
    assert container["args"] == ["run", argument]
    assert variables(container["args"][1:]) == {"GAUDI_OPERATOR_HTTP_HOST": "::"}
    assert (pod_of(objects)["volumes"], container["volumeMounts"]) == ([volume], [mounted])


AGENT = {"name": "agent", "image": "agent:1", "restartPolicy": "Always"}


def test_more_containers_stand_around_the_operators() -> None:
    pod = pod_of(render(extraContainers=[{"name": "signer", "image": "signer:1"}], extraInitContainers=[AGENT]))
    assert [each["name"] for each in pod["containers"]] == ["operator", "signer"]
    assert pod["initContainers"] == [AGENT]


def test_more_objects_are_rendered_as_templates() -> None:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-ca"}}
    text = dedent("""\
        apiVersion: v1
        kind: Secret
        metadata:
          name: proxy
          {{- if .Values.commonLabels }}
          labels: {{ toJson .Values.commonLabels }}
          {{- end }}
    """)
    objects = render(extraObjects=[whole, text], commonLabels={"team": "ai"})
    assert only(objects, "ConfigMap") == {**whole, "metadata": {"name": "gaudi-operator-ca"}}
    assert only(objects, "Secret")["metadata"] == {"name": "proxy", "labels": {"team": "ai"}}


NODES = {"ipBlock": {"cidr": "10.0.0.0/16"}}


def test_pods_of_the_host_network_find_names_port_and_place() -> None:
    objects = render(hostNetwork=True, httpPort=18080, monitoring={"from": [NODES]})
    pod, container = pod_of(objects), container_of(objects)
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert [port["containerPort"] for port in container["ports"]] == [18080]
    assert environment_of(objects)["GAUDI_OPERATOR_HTTP_PORT"] == "18080"
    # Where a pod runs on each node, another one finds no free port before one has gone.
    rolling = only(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}


def test_strategy_that_is_given_counts_on_the_host_network_too() -> None:
    objects = render(hostNetwork=True, strategy={"type": "Recreate"}, monitoring={"from": [NODES]})
    assert only(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_default_pods_share_nothing_with_their_node(defaults: list[Object]) -> None:
    asked = {"hostNetwork", "hostPID", "hostIPC", "hostUsers", "dnsPolicy", "runtimeClassName", "initContainers"}
    assert not asked & pod_of(defaults).keys()


def test_names_are_looked_up_as_given() -> None:
    given = {
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.53"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["proxy.example.com"]}],
    }
    assert given.items() <= pod_of(render(**given)).items()


def test_pod_fields_of_platforms_reach_the_pod(defaults: list[Object]) -> None:
    assert pod_of(defaults)["enableServiceLinks"] is False
    given = {
        "runtimeClassName": "gvisor",
        "hostUsers": False,
        "enableServiceLinks": True,
        "terminationGracePeriodSeconds": 60,
    }
    assert given.items() <= pod_of(render(**given)).items()


def test_token_comes_by_a_volume_where_no_account_brings_one() -> None:
    mounted = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    objects = render(automountServiceAccountToken=False, extraVolumeMounts=[mounted])
    assert pod_of(objects)["automountServiceAccountToken"] is False


def test_account_may_hide_its_token_from_other_pods() -> None:
    account = {"automountServiceAccountToken": False, "labels": {"team": "ai"}}
    objects = render(serviceAccount=account)
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert only(objects, "ServiceAccount")["metadata"]["labels"]["team"] == "ai"
    assert pod_of(objects)["automountServiceAccountToken"] is True


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probe_is_as_patient_as_given(defaults: list[Object], probe: str) -> None:
    changed = container_of(render(**{probe: {"timeoutSeconds": 9, "failureThreshold": 99}}))[probe]
    assert changed == {**container_of(defaults)[probe], "timeoutSeconds": 9, "failureThreshold": 99}


def test_deployment_has_marks_of_its_own() -> None:
    objects = render(
        deploymentAnnotations={"reloader": "auto"},
        deploymentLabels={"tier": "infra", "app.kubernetes.io/name": "other"},
        revisionHistoryLimit=2,
    )
    deployment = only(objects, "Deployment")
    assert deployment["spec"]["revisionHistoryLimit"] == 2
    assert deployment["metadata"]["annotations"] == {"reloader": "auto"}
    assert deployment["metadata"]["labels"]["tier"] == "infra"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "gaudi-operator"
    assert "tier" not in deployment["spec"]["template"]["metadata"]["labels"]


def test_metrics_service_has_marks_and_families_of_its_own() -> None:
    families = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    marks = {"serviceAnnotations": {"scrape": "true"}, "serviceLabels": {"tier": "infra"}}
    service = only(render(metrics={**families, **marks}), "Service")
    assert families.items() <= service["spec"].items()
    assert service["metadata"]["annotations"] == {"scrape": "true"}
    assert service["metadata"]["labels"]["tier"] == "infra"


def test_network_policy_names_whom_the_operator_reaches() -> None:
    to = {"to": [{"ipBlock": {"cidr": "10.96.0.1/32"}}], "ports": [{"port": 443}]}
    policy = only(render(networkPolicy={"egress": [to]}), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == [to]


EVERYTHING: Object = {
    "metrics": {"serviceMonitor": {"enabled": True}},
    "monitoring": {
        "podMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboards": {"enabled": True},
    },
}


def test_common_labels_and_annotations_reach_every_object() -> None:
    common = {"cost-center": "ai"}
    objects = render(commonLabels=common, commonAnnotations={"owner": "platform"}, **EVERYTHING)
    pods = only(objects, "Deployment")["spec"]["template"]["metadata"]
    every = [*(each["metadata"] for each in objects), pods]
    assert [each for each in every if not common.items() <= each["labels"].items()] == []
    assert [each for each in every if each["annotations"].get("owner") != "platform"] == []


def test_common_labels_replace_nothing_that_is_selected_by(defaults: list[Object]) -> None:
    changed = render(commonLabels={"app.kubernetes.io/name": "other", "team": "ai"})
    selector = only(changed, "Deployment")["spec"]["selector"]["matchLabels"]
    labels = only(changed, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert selector == only(defaults, "Deployment")["spec"]["selector"]["matchLabels"]
    assert labels == {**selector, "team": "ai"}


def test_digest_stands_behind_the_tag() -> None:
    digests = {name: f"sha256:{number * 64}" for name, number in (("operator", "1"), ("runtime", "2"), ("hpu", "3"))}
    objects = render(image={"digests": digests})
    environment = environment_of(objects)
    assert container_of(objects)["image"] == f"{PREFIX}gaudi-operator:0.1.0@{digests['operator']}"
    assert environment["GAUDI_OPERATOR_RUNTIME_IMAGE"] == f"{PREFIX}gaudi-runtime:0.1.0@{digests['runtime']}"
    assert environment["GAUDI_OPERATOR_HPU_IMAGE"] == f"{PREFIX}gaudi-runtime-hpu:0.1.0@{digests['hpu']}"


def test_secrets_and_policy_of_pulls_are_told_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}], "imagePullPolicy": "Always"}
    for name, value in environment_of(render(models=models)).items():
        monkeypatch.setenv(name, value if value is not None else NAMESPACE)
    told = Settings().defaults()
    assert told.image_pull_secrets == ("registry", "mirror")
    assert told.image_pull_policy == "Always"


def test_pod_of_helm_test_is_found_by_no_selector(defaults: list[Object]) -> None:
    test, selector = only(defaults, "Pod"), only(defaults, "Deployment")["spec"]["selector"]["matchLabels"]
    assert test["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert not selector.items() <= test["metadata"]["labels"].items()
    assert test["spec"]["containers"][0]["image"] == container_of(defaults)["image"]


def test_pod_of_helm_test_may_reach_the_operator() -> None:
    objects = render(networkPolicy={"from": [{"namespaceSelector": {}}]})
    _, tester = only(objects, "NetworkPolicy")["spec"]["ingress"][0]["from"]
    selected = tester["podSelector"]["matchLabels"]
    assert selected.items() <= only(objects, "Pod")["metadata"]["labels"].items()


def test_example_in_the_notes_is_valid() -> None:
    example = yaml.safe_load((CHART / "files" / "first.yaml").read_text())
    understood = GaudiInference.model_validate(example).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert understood["spec"] == example["spec"]  # unknown fields would have been dropped


def test_admission_policies_are_those_of_the_models(defaults: list[Object]) -> None:
    policies = [each for each in defaults if each["kind"].startswith("ValidatingAdmissionPolicy")]
    made = door.policies("gaudi-operator", DEFAULT_CONTROLLER, [])
    assert [each["spec"] for each in policies if not each["metadata"]["name"].endswith("-account")] == [
        each["spec"] for kind in ("Policy", "PolicyBinding") for each in made if each["kind"].endswith(kind)
    ]


def test_each_admission_policy_may_be_left_out() -> None:
    def names(**values: bool) -> set[str]:
        rendered = of_kind(render(admissionPolicies=values), "ValidatingAdmissionPolicy")
        return {each["metadata"]["name"] for each in rendered}

    assert names(classes=False) == {"gaudi-operator-account"}
    assert names(operator=False) == {"gaudi-operator-classes", "gaudi-operator-scale"}


def test_policies_of_some_namespaces_judge_nobody_else() -> None:
    rendered = of_kind(render(watchNamespaces=["a", "b"]), "ValidatingAdmissionPolicyBinding")
    selected = {each["metadata"]["name"]: each["spec"].get("matchResources") for each in rendered}
    here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    expected = {"namespaceSelector": {"matchExpressions": [here]}}
    # The account of the operator is held everywhere: it has rights in these namespaces only.
    assert selected == {
        "gaudi-operator-account": None,
        "gaudi-operator-classes": expected,
        "gaudi-operator-scale": expected,
    }
