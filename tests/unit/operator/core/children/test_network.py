"""Network access to a pod and the certificate of its port, one fact per test."""

from dataclasses import replace
from typing import Any

from gaudi_operator.core.children.manifests import network_policy_manifest
from gaudi_operator.core.names import NAME_LABEL
from tests.unit.operator.core.rendered_pod import container, mount, volume
from tests.unit.operator.core.resources import DEFAULTS, inference


def clients(**access: Any) -> list[dict[str, Any]]:
    rules = network_policy_manifest(inference(networkAccess=access), DEFAULTS)["spec"]["ingress"]
    return [rule for rule in rules if rule["ports"][0]["port"] == "http"]


def listed(peers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return clients(**{"from": "Clients", "clients": peers})


def test_status_port_is_open_to_the_operator_only() -> None:
    rules = network_policy_manifest(inference(), DEFAULTS)["spec"]["ingress"]
    (found,) = [rule for rule in rules if rule["ports"][0]["port"] == "status"]
    assert found["from"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gaudi-system"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "gaudi-operator"}},
        }
    ]


def test_configured_monitoring_reaches_the_status_port() -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"team": "metrics"}}}
    rules = network_policy_manifest(inference(), replace(DEFAULTS, monitoring_from=(prometheus,)))["spec"]["ingress"]
    (found,) = [rule for rule in rules if rule["ports"][0]["port"] == "status"]
    assert found["from"][1:] == [{"namespaceSelector": {"matchLabels": {"team": "metrics"}}}]


def test_only_pods_of_the_own_namespace_are_clients_by_default() -> None:
    assert [rule["from"] for rule in clients()] == [[{"podSelector": {}}]]


def test_gateways_of_the_installation_are_clients_by_default() -> None:
    gateway = {
        "namespaceSelector": {"matchLabels": {"team": "edge"}},
        "podSelector": {"matchLabels": {"app": "gateway"}},
    }
    defaults = replace(DEFAULTS, gateways_from=(gateway,))
    rules = network_policy_manifest(inference(), defaults)["spec"]["ingress"]
    assert rules[0]["from"] == [{"podSelector": {}}, gateway]
    own_list = network_policy_manifest(
        inference(networkAccess={"from": "Clients", "clients": [{"podSelector": {}}]}), defaults
    )["spec"]["ingress"]
    assert own_list[0]["from"] == [{"podSelector": {}}]


def test_published_model_accepts_only_its_namespace_by_default() -> None:
    rules = network_policy_manifest(inference(service={"type": "LoadBalancer"}), DEFAULTS)["spec"]["ingress"]
    assert rules[0]["from"] == [{"podSelector": {}}]


def test_all_clients_are_all_pods_of_the_cluster() -> None:
    assert [rule["from"] for rule in clients(**{"from": "Everyone"})] == [[{"namespaceSelector": {}}]]


def test_published_model_for_all_clients_has_no_source_limit() -> None:
    everyone = inference(service={"type": "LoadBalancer"}, networkAccess={"from": "Everyone"})
    rules = network_policy_manifest(everyone, DEFAULTS)["spec"]["ingress"]
    assert rules[0] == {"ports": [{"port": "http", "protocol": "TCP"}]}


def test_empty_list_of_clients_allows_no_client() -> None:
    assert listed([]) == []


def test_named_clients_are_selected_by_namespace_and_pod() -> None:
    named = [
        {"podSelector": {"matchLabels": {"app": "chat"}}},
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}, "podSelector": {}},
        {"namespaceSelector": {}},
    ]
    assert listed(named)[0]["from"] == named


def test_external_clients_are_selected_by_address() -> None:
    named = [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]
    assert listed(named)[0]["from"] == named


def test_client_of_a_wrong_form_is_left_to_the_server() -> None:
    named = [{"ipBlock": {"cidr": "somewhere"}}, {"podSelector": "app=a"}, {"pods": {}}]
    assert listed(named)[0]["from"] == named


def test_policy_selects_the_resources_pods_and_ingress() -> None:
    spec = network_policy_manifest(inference(), DEFAULTS)["spec"]
    assert spec["podSelector"] == {"matchLabels": {NAME_LABEL: "tiny"}}
    assert spec["policyTypes"] == ["Ingress"]
    assert "egress" not in spec


def test_certificate_is_mounted_as_an_updatable_folder() -> None:
    secured = {"server": {"tlsSecretName": "chat-tls"}}
    assert volume("gaudi-tls", **secured) == {"name": "gaudi-tls", "secret": {"secretName": "chat-tls"}}
    assert mount("/etc/gaudi-tls", **secured) == {"name": "gaudi-tls", "mountPath": "/etc/gaudi-tls", "readOnly": True}
    assert container(**secured)["readinessProbe"]["httpGet"]["scheme"] == "HTTP"


def test_port_without_a_certificate_has_no_certificate_folder() -> None:
    assert mount("/etc/gaudi-tls") is None
