"""What our network policies let through when a packet filter enforces them: what they promise, and nothing else."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import yaml

from demo import install
from demo.install import OPERATOR_NAMESPACE, Installed
from demo.resource import Resource
from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.contract.ports import WARMUP_PATH
from localcluster.errors import LocalClusterError
from localcluster.node import Node
from tests.e2e.pods import Pods
from tests.e2e.specs import QUICK

STATUS_PORT, MODEL_PORT = ServingConfig().status_port, ServingConfig().model_port
REACHES = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 10).close()"
CLIENT = {"podSelector": {"matchLabels": {"app": "client"}}}


def client(name: str) -> dict[str, Any]:
    """A pod that waits to be asked whom it reaches."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
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


@pytest.fixture(scope="module")
def monitoring(installed: Installed) -> Iterator[str]:
    """A namespace with a pod in it, which the chart names as the one that scrapes."""
    name = f"monitoring-{uuid4().hex[:8]}"
    installed.make_namespace(name)
    installed.kubectl("apply", "--namespace", name, "-f", "-", stdin=yaml.safe_dump(client("prometheus")))
    label = "kubernetes\\.io/metadata\\.name"
    install.install_chart(installed, f"monitoring.from[0].namespaceSelector.matchLabels.{label}={name}")
    yield name
    install.install_chart(installed)
    installed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def models(
    installed: Installed,
    namespace: str,
    monitoring: str,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
) -> dict[str, str]:
    """Addresses: of a model for every pod of the cluster, and of one for a named client alone."""
    if not isinstance(installed.cluster, Node):
        pytest.skip("a cluster that is given enforces policies, or does not, by itself")
    apply("open", **QUICK)
    apply("closed", **QUICK, networkAccess={"allowAllClients": False, "clients": [CLIENT]})
    for name in ("client", "stranger"):
        installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(client(name)))
    for name in ("open", "closed"):
        wait_ready(name)
    ready = ("wait", "--for=condition=Ready", "--timeout=120s")
    installed.kubectl(*ready, "--namespace", namespace, "pod/client", "pod/stranger")
    installed.kubectl(*ready, "--namespace", monitoring, "pod/prometheus")
    installed.cluster.enforce_policies()
    return {name: Pods(installed, namespace, name).only()["status"]["podIP"] for name in ("open", "closed")}


@pytest.fixture(scope="module")
def reaches(installed: Installed, namespace: str, monitoring: str, models: dict[str, str]) -> Callable[..., bool]:
    """Whether somebody's packets arrive at a port of a model's pod."""
    where = {
        "client": (namespace, "pod/client"),
        "stranger": (namespace, "pod/stranger"),
        "prometheus": (monitoring, "pod/prometheus"),
        "operator": (OPERATOR_NAMESPACE, "deployment/gaudi-operator"),
    }

    def asked(who: str, model: str, port: int) -> bool:
        inside, pod = where[who]
        command = ("exec", "--namespace", inside, pod, "--", "python3", "-c", REACHES, models[model], str(port))
        try:
            installed.kubectl(*command)
        except LocalClusterError as error:
            if "ConnectionRefusedError" not in str(error):
                raise
            return False
        return True

    return asked


@pytest.mark.parametrize(
    ("who", "model", "port", "arrives"),
    [
        ("stranger", "open", MODEL_PORT, True),
        ("stranger", "open", STATUS_PORT, False),
        ("stranger", "closed", MODEL_PORT, False),
        ("client", "closed", MODEL_PORT, True),
        ("client", "closed", STATUS_PORT, False),
        ("prometheus", "closed", STATUS_PORT, True),
        ("prometheus", "closed", MODEL_PORT, False),
        ("operator", "closed", STATUS_PORT, True),
        ("operator", "closed", MODEL_PORT, False),
    ],
)
def test_packets_arrive_where_the_policy_promises(
    reaches: Callable[..., bool], who: str, model: str, port: int, arrives: bool
) -> None:
    assert reaches(who, model, port) is arrives


def test_report_is_read_through_the_api_server(
    installed: Installed, namespace: str, reaches: Callable[..., bool]
) -> None:
    pod = Pods(installed, namespace, "closed").only()["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{STATUS_PORT}/proxy{WARMUP_PATH}"
    assert json.loads(installed.kubectl("get", "--raw", path))["phase"] == "Serving"
