"""Every chart value reaches the objects that it configures."""

from textwrap import dedent

import pytest
import yaml

from gaudi_operator.api.v1alpha1.resource import GaudiInference
from gaudi_operator.settings import Settings, parse_arguments
from scripts.chart_docs import CHART, NAMESPACE
from tests.unit.chart.rendering import PREFIX, Object, container_of, environment_of, only, pod_of, render

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm


def test_scheduling_labels_and_pull_secrets_are_set_on_the_pod() -> None:
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


def test_update_strategy_is_rendered_only_if_configured(defaults: list[Object]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert "strategy" not in only(defaults, "Deployment")["spec"]
    assert only(render(strategy=strategy), "Deployment")["spec"]["strategy"] == strategy


def test_security_contexts_are_merged_by_field() -> None:
    """The value null removes a field. Clusters that assign the user need this removal."""
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


def test_extra_variables_arguments_and_volumes_are_rendered() -> None:
    variable = {"name": "SSL_CERT_FILE", "value": "/ca/ca.pem"}
    volume = {"name": "ca", "configMap": {"name": "company-ca"}}
    mounted = {"name": "ca", "mountPath": "/ca", "readOnly": True}
    argument = "--http-host=::"
    objects = render(extraEnv=[variable], extraArgs=[argument], extraVolumes=[volume], extraVolumeMounts=[mounted])
    container = container_of(objects)
    assert container["env"][-1] == variable
    assert container["args"] == ["run", argument]
    assert parse_arguments(container["args"][1:]) == {"GAUDI_OPERATOR_HTTP_HOST": "::"}
    assert (pod_of(objects)["volumes"], container["volumeMounts"]) == ([volume], [mounted])


AGENT = {"name": "agent", "image": "agent:1", "restartPolicy": "Always"}


def test_extra_containers_are_added_to_the_pod() -> None:
    pod = pod_of(render(extraContainers=[{"name": "signer", "image": "signer:1"}], extraInitContainers=[AGENT]))
    assert [each["name"] for each in pod["containers"]] == ["operator", "signer"]
    assert pod["initContainers"] == [AGENT]


def test_extra_objects_are_rendered_as_templates() -> None:
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


def test_host_network_sets_dns_port_and_strategy() -> None:
    objects = render(hostNetwork=True, httpPort=18080, monitoring={"from": [NODES]})
    pod, container = pod_of(objects), container_of(objects)
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert [port["containerPort"] for port in container["ports"]] == [18080]
    assert environment_of(objects)["GAUDI_OPERATOR_HTTP_PORT"] == "18080"
    # A new pod cannot use the host port while an old pod on the node uses it. So the rollout deletes an old pod first.
    rolling = only(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}


def test_configured_strategy_is_kept_with_the_host_network() -> None:
    objects = render(hostNetwork=True, strategy={"type": "Recreate"}, monitoring={"from": [NODES]})
    assert only(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_default_pods_share_no_host_namespaces(defaults: list[Object]) -> None:
    asked = {"hostNetwork", "hostPID", "hostIPC", "hostUsers", "dnsPolicy", "runtimeClassName", "initContainers"}
    assert not asked & pod_of(defaults).keys()


def test_dns_settings_are_set_on_the_pod() -> None:
    given = {
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.53"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "10.0.0.7", "hostnames": ["proxy.example.com"]}],
    }
    assert given.items() <= pod_of(render(**given)).items()


def test_platform_pod_fields_are_set_on_the_pod(defaults: list[Object]) -> None:
    assert pod_of(defaults)["enableServiceLinks"] is False
    given = {
        "runtimeClassName": "gvisor",
        "hostUsers": False,
        "enableServiceLinks": True,
        "terminationGracePeriodSeconds": 60,
    }
    assert given.items() <= pod_of(render(**given)).items()


def test_token_automount_can_be_replaced_by_an_extra_mount() -> None:
    mounted = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    objects = render(automountServiceAccountToken=False, extraVolumeMounts=[mounted])
    assert pod_of(objects)["automountServiceAccountToken"] is False


def test_account_may_disable_token_mounting() -> None:
    account = {"automountServiceAccountToken": False, "labels": {"team": "ai"}}
    objects = render(serviceAccount=account)
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert only(objects, "ServiceAccount")["metadata"]["labels"]["team"] == "ai"
    assert pod_of(objects)["automountServiceAccountToken"] is True


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probe_has_the_configured_timings(defaults: list[Object], probe: str) -> None:
    changed = container_of(render(**{probe: {"timeoutSeconds": 9, "failureThreshold": 99}}))[probe]
    assert changed == {**container_of(defaults)[probe], "timeoutSeconds": 9, "failureThreshold": 99}


def test_deployment_has_its_own_labels_and_annotations() -> None:
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


def test_metrics_service_has_its_own_metadata_and_ip_families() -> None:
    families = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    marks = {"serviceAnnotations": {"scrape": "true"}, "serviceLabels": {"tier": "infra"}}
    service = only(render(metrics={**families, **marks}), "Service")
    assert families.items() <= service["spec"].items()
    assert service["metadata"]["annotations"] == {"scrape": "true"}
    assert service["metadata"]["labels"]["tier"] == "infra"


def test_network_policy_has_the_configured_egress_rules() -> None:
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


def test_common_labels_and_annotations_are_set_on_every_object() -> None:
    common = {"cost-center": "ai"}
    objects = render(commonLabels=common, commonAnnotations={"owner": "platform"}, **EVERYTHING)
    pods = only(objects, "Deployment")["spec"]["template"]["metadata"]
    every = [*(each["metadata"] for each in objects), pods]
    assert [each for each in every if not common.items() <= each["labels"].items()] == []
    assert [each for each in every if each["annotations"].get("owner") != "platform"] == []


def test_common_labels_do_not_replace_selector_labels(defaults: list[Object]) -> None:
    changed = render(commonLabels={"app.kubernetes.io/name": "other", "team": "ai"})
    selector = only(changed, "Deployment")["spec"]["selector"]["matchLabels"]
    labels = only(changed, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert selector == only(defaults, "Deployment")["spec"]["selector"]["matchLabels"]
    assert labels == {**selector, "team": "ai"}


def test_digest_is_appended_to_the_image_tag() -> None:
    digests = {name: f"sha256:{number * 64}" for name, number in (("operator", "1"), ("runtime", "2"), ("hpu", "3"))}
    objects = render(image={"digests": digests})
    environment = environment_of(objects)
    assert container_of(objects)["image"] == f"{PREFIX}gaudi-operator:0.1.0@{digests['operator']}"
    assert environment["GAUDI_OPERATOR_RUNTIME_IMAGE"] == f"{PREFIX}gaudi-runtime:0.1.0@{digests['runtime']}"
    assert environment["GAUDI_OPERATOR_HPU_IMAGE"] == f"{PREFIX}gaudi-runtime-hpu:0.1.0@{digests['hpu']}"


def test_pull_secrets_and_policy_are_passed_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}], "imagePullPolicy": "Always"}
    for name, value in environment_of(render(models=models)).items():
        monkeypatch.setenv(name, value if value is not None else NAMESPACE)
    settings = Settings().installation_defaults()
    assert settings.image_pull_secrets == ("registry", "mirror")
    assert settings.image_pull_policy == "Always"


def test_require_class_is_passed_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_of(render(requireClass=True)).items():
        monkeypatch.setenv(name, value if value is not None else NAMESPACE)
    assert Settings().installation_defaults().require_class is True


def test_helm_test_pod_matches_no_selector(defaults: list[Object]) -> None:
    test, selector = only(defaults, "Pod"), only(defaults, "Deployment")["spec"]["selector"]["matchLabels"]
    assert test["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert not selector.items() <= test["metadata"]["labels"].items()
    assert test["spec"]["containers"][0]["image"] == container_of(defaults)["image"]


def test_manifest_in_the_release_notes_is_valid() -> None:
    example = yaml.safe_load((CHART / "files" / "first.yaml").read_text())
    understood = GaudiInference.model_validate(example).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert understood["spec"] == example["spec"]  # otherwise unknown fields would have been dropped
