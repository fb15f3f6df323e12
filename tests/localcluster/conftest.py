"""A node for tests that do not change the node."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import Node, uses_own_node
from localcluster.programs import debian
from localcluster.sandbox.processes import wait_until

MISSING, OWN_NODE = debian.missing(debian.NODE | debian.IMAGES), uses_own_node()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Skip the tests where kind or KUBECONFIG replaces the node, unless the machine has the packages of the node.

    Otherwise, `make test` would install packages that this machine does not need.
    """
    if MISSING and not OWN_NODE and item.path.parent == Path(__file__).parent:
        item.add_marker(pytest.mark.skip(f"This machine uses another cluster, and has no {', '.join(MISSING)}."))


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A running node."""
    with Node(tmp_path_factory.mktemp("node"), "used") as running:
        yield running


def accepts(address: str) -> bool:
    """Return whether a server accepts connections on port 80."""
    try:
        with socket.create_connection((address, 80), timeout=1):
            return True
    except OSError:
        return False


@pytest.fixture(scope="session")
def pod(node: Node) -> Iterator[str]:
    """A pod that serves its name over HTTP behind the Service `front`."""
    node.kubectl("apply", "-f", str(Path(__file__).with_name("web.yaml")))
    node.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
    address = node.kubectl("get", "service", "front", "-o", "jsonpath={.spec.clusterIP}")
    wait_until(lambda: accepts(address), "kube-proxy to route the Service", 10)
    yield "web"
    node.kubectl("delete", "-f", str(Path(__file__).with_name("web.yaml")), "--wait=false")
