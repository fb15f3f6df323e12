"""The connections that network policies allow or deny while a packet filter enforces the policies."""

import json

import pytest

from demo.install import Installation
from gaudi_runtime.contract.ports import WARMUP_PATH
from localcluster.node.node import Node
from tests.e2e.network_policies import (
    PROMISED,
    STATUS_PORT,
    Places,
    addresses,
    monitoring_namespace,
    open_class,
    places,
    reaches,
)
from tests.e2e.pods import Pods

__all__ = ["addresses", "monitoring_namespace", "open_class", "places"]


@pytest.fixture(scope="module")
def targets(installed: Installation, addresses: dict[str, str]) -> dict[str, str]:
    """The addresses of the models and an operator pod, after the node enforces the network policies."""
    assert isinstance(installed.cluster, Node)
    installed.cluster.enforce_policies()
    return addresses


@pytest.mark.parametrize(("who", "target", "port", "arrives"), PROMISED)
def test_connections_match_the_documented_policies(
    installed: Installation, places: Places, targets: dict[str, str], who: str, target: str, port: int, arrives: bool
) -> None:
    assert reaches(installed, places[who], targets[target], port) is arrives


@pytest.mark.usefixtures("targets")
def test_report_is_readable_through_the_api_server(installed: Installation, namespace: str) -> None:
    pod = Pods(installed, namespace, "closed").only()["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{STATUS_PORT}/proxy{WARMUP_PATH}"
    assert json.loads(installed.kubectl("get", "--raw", path))["phase"] == "Serving"
