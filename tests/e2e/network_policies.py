"""Models and clients that check which connections network policies allow, with any enforcing component."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
import yaml

from demo import install
from demo.install import OPERATOR_NAMESPACE, Installation
from demo.resource import Resource
from gaudi_runtime.contract.config import ServingConfig
from localcluster.errors import LocalClusterError
from localcluster.node.node import Node
from tests.e2e.classes import new_class
from tests.e2e.pods import Pods
from tests.e2e.specs import QUICK

STATUS_PORT, MODEL_PORT, OPERATOR_PORT = ServingConfig().status_port, ServingConfig().model_port, 8080
PROMISED = [
    ("neighbour", "usual", MODEL_PORT, True),
    ("neighbour", "usual", STATUS_PORT, False),
    ("gateway", "usual", MODEL_PORT, True),
    ("gateway", "usual", STATUS_PORT, False),
    ("stranger", "usual", MODEL_PORT, False),
    ("stranger", "usual", STATUS_PORT, False),
    ("stranger", "open", MODEL_PORT, True),
    ("stranger", "open", STATUS_PORT, False),
    ("neighbour", "closed", MODEL_PORT, False),
    ("gateway", "closed", MODEL_PORT, False),
    ("client", "closed", MODEL_PORT, True),
    ("client", "closed", STATUS_PORT, False),
    ("prometheus", "closed", STATUS_PORT, True),
    ("prometheus", "closed", MODEL_PORT, False),
    ("operator", "closed", STATUS_PORT, True),
    ("operator", "closed", MODEL_PORT, False),
    ("prometheus", "operator", OPERATOR_PORT, True),
    ("stranger", "operator", OPERATOR_PORT, False),
    ("neighbour", "operator", OPERATOR_PORT, False),
]
"""(client, target, port, whether the connection is allowed)."""

LABEL = "connects-as"
"""The label of client pods. Their namespace may have a Service that selects by `app`."""

NAMED_CLIENT = {"from": "Clients", "clients": [{"podSelector": {"matchLabels": {LABEL: "client"}}}]}
Places = Mapping[str, tuple[str, str]]
"""The clients by name: (namespace, the pod argument of `kubectl exec`)."""

_FROM = "{}.from[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name={}"
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"
_KEPT_OUT = ("ConnectionRefusedError", "TimeoutError")
"""The errors of a client whose packets a filter rejects or drops."""


def client_pod(name: str) -> dict[str, Any]:
    """Return a pod in which `kubectl exec` can run commands."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "python",
                    "image": install.RUNTIME_IMAGE,
                    "command": ["python3", "-c", "import signal; signal.pause()"],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def reaches(installed: Installation, who: tuple[str, str], address: str, port: int) -> bool:
    """Return whether this pod can connect to the port."""
    namespace, pod = who
    command = ("exec", "--namespace", namespace, pod, "--", "python3", "-c", _CONNECT, address, str(port))
    try:
        installed.kubectl(*command)
    except LocalClusterError as error:
        if not any(each in str(error) for each in _KEPT_OUT):
            raise
        return False
    return True


def operator_addresses(installed: Installation) -> list[str]:
    """Return the addresses of the operator's pods that are not terminating."""
    selected = ("--selector=app.kubernetes.io/name=gaudi-operator", "--output=json")
    listed = json.loads(installed.kubectl("get", "pods", "--namespace", OPERATOR_NAMESPACE, *selected))["items"]
    return [each["status"]["podIP"] for each in listed if "deletionTimestamp" not in each["metadata"]]


@pytest.fixture(scope="module")
def monitoring_namespace() -> str:
    """The namespace of Prometheus in the values of the chart."""
    return f"prometheus-{uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def places(installed: Installation, namespace: str, monitoring_namespace: str) -> Iterator[Places]:
    """Client pods in the models' namespace and in three other namespaces. The chart's values name two of the three."""
    if not isinstance(installed.cluster, Node):
        pytest.skip("policies of an existing cluster are enforced by its own network plugin, or not at all")
    others = {name: f"{name}-{uuid4().hex[:8]}" for name in ("gateway", "stranger")}
    others["prometheus"] = monitoring_namespace
    for name in others.values():
        installed.create_namespace(name)
    found = {name: (inside, f"pod/{name}") for name, inside in others.items()}
    found |= {name: (namespace, f"pod/{name}") for name in ("client", "neighbour")}
    for name, (inside, _) in found.items():
        installed.kubectl("apply", "--namespace", inside, "-f", "-", stdin=yaml.safe_dump(client_pod(name)))
    peers = {"monitoring": others["prometheus"], "gateways": others["gateway"]}
    install.install_chart(installed, *(_FROM.format(section, name) for section, name in peers.items()))
    for inside, pod in found.values():
        installed.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "--namespace", inside, pod)
    yield {**found, "operator": (OPERATOR_NAMESPACE, "deployment/gaudi-operator")}
    install.install_chart(installed)
    for name in others.values():
        installed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def open_class(installed: Installation) -> Iterator[str]:
    """A class whose models may allow clients from every namespace."""
    with new_class(installed, limits={"allowAllClients": True}) as name:
        yield name


@pytest.fixture(scope="module")
def addresses(
    installed: Installation,
    namespace: str,
    places: Places,
    open_class: str,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
) -> dict[str, str]:
    """The addresses of three Ready models and of an operator pod."""
    models: dict[str, dict[str, Any]] = {
        "usual": {},
        "closed": {"networkAccess": NAMED_CLIENT},
        "open": {"networkAccess": {"from": "Everyone"}, "className": open_class},
    }
    for name, spec in models.items():
        apply(name, **{**QUICK, **spec})
    for name in models:
        wait_ready(name)
    found = {name: Pods(installed, namespace, name).only()["status"]["podIP"] for name in models}
    return {**found, "operator": operator_addresses(installed)[0]}
