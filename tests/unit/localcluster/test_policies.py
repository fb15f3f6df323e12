"""Packet filter rules of NetworkPolicies. A packet goes from a pod to a port of another pod."""

import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from localcluster.node.policies import CHAIN, filter_rules
from tests.support.builders import Object

NAMESPACES = [
    {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}} for name in ("models", "monitoring")
]


def pod(address: str, namespace: str = "models", **labels: str) -> Object:
    ports = [{"name": "http", "containerPort": 8000}, {"name": "status", "containerPort": 8001}]
    return {
        "metadata": {"name": f"p{address}", "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"ports": ports}]},
        "status": {"podIP": address, "phase": "Running"},
    }


MODEL, CLIENT, OTHER = pod("10.0.0.1", app="model"), pod("10.0.0.2", app="client"), pod("10.0.0.3", app="other")
PROMETHEUS = pod("10.0.1.1", "monitoring", app="prometheus")
PODS = [MODEL, CLIENT, OTHER, PROMETHEUS]


def policy(*ingress: Object, selector: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "x", "namespace": "models"},
        "spec": {"podSelector": selector or {"matchLabels": {"app": "model"}}, "ingress": list(ingress), **spec},
    }


def allows(policies: list[Object], source: str, target: str, port: int) -> bool:
    """Return True if the rules of these policies accept the first packet of a connection."""
    chains: dict[str, list[str]] = {}
    for line in filter_rules(PODS, NAMESPACES, policies).splitlines():
        if found := re.match(r"-A (\S+) (.*)", line):
            chains.setdefault(found[1], []).append(found[2])

    def fits(rule: str) -> bool:
        at = re.search(r"-d (\S+)", rule), re.search(r"-s (\S+)", rule), re.search(r"--dport (\d+)(?::(\d+))?", rule)
        to, by, ports = at
        return (
            "conntrack" not in rule
            and (to is None or ip_address(target) in ip_network(to[1]))
            and (by is None or ip_address(source) in ip_network(by[1]))
            and (ports is None or int(ports[1]) <= port <= int(ports[2] or ports[1]))
        )

    rules = list(chains[CHAIN])
    while rules:
        rule = rules.pop(0)
        if fits(rule):
            jump = rule.split("-j ")[1]
            if jump in ("RETURN", "REJECT"):
                return jump == "RETURN"
            rules = list(chains[jump])
    return True


def test_pod_selected_by_no_policy_is_reachable() -> None:
    assert allows([policy()], "10.0.0.2", "10.0.0.3", 8000)


def test_pod_selected_by_a_policy_without_rules_is_isolated() -> None:
    assert not allows([policy()], "10.0.0.2", "10.0.0.1", 8000)


def test_egress_policy_blocks_no_ingress() -> None:
    assert allows([policy(policyTypes=["Egress"])], "10.0.0.2", "10.0.0.1", 8000)


def test_policy_of_another_namespace_does_not_apply() -> None:
    elsewhere = {**policy(selector={}), "metadata": {"name": "x", "namespace": "monitoring"}}
    assert allows([elsewhere], "10.0.0.2", "10.0.0.1", 8000)


@pytest.mark.parametrize(
    ("peer", "through"),
    [
        ({"podSelector": {"matchLabels": {"app": "client"}}}, {"10.0.0.2"}),
        ({"podSelector": {}}, {"10.0.0.1", "10.0.0.2", "10.0.0.3"}),
        ({"namespaceSelector": {}}, {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1"}),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}, {"10.0.1.1"}),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "prometheus"}}}, {"10.0.1.1"}),
        ({"podSelector": {"matchLabels": {"app": "prometheus"}}}, set()),
        (
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["other"]}]}},
            {"10.0.0.1", "10.0.0.2"},
        ),
        ({"podSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}, set()),
        ({"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.1.0/24", "10.0.0.3/32"]}}, {"10.0.0.1", "10.0.0.2"}),
    ],
)
def test_only_peers_of_the_policy_are_allowed(peer: Object, through: set[str]) -> None:
    addresses = [each["status"]["podIP"] for each in PODS]
    assert {each for each in addresses if allows([policy({"from": [peer]})], each, "10.0.0.1", 8000)} == through


@pytest.mark.parametrize(
    ("port", "open_"),
    [
        ({"port": "status"}, [8001]),
        ({"port": 8000}, [8000]),
        ({"port": 8000, "endPort": 8001}, [8000, 8001]),
        ({"port": "unknown"}, []),
        ({"protocol": "TCP"}, [8000, 8001, 9000]),
    ],
)
def test_only_ports_of_the_policy_are_allowed(port: Object, open_: list[int]) -> None:
    rules = [policy({"ports": [port]})]
    assert [each for each in (8000, 8001, 9000) if allows(rules, "10.0.0.2", "10.0.0.1", each)] == open_


def test_policies_are_additive() -> None:
    both = [policy({"ports": [{"port": 8000}]}), policy({"ports": [{"port": 8001}]})]
    assert all(allows(both, "10.0.0.2", "10.0.0.1", each) for each in (8000, 8001))
