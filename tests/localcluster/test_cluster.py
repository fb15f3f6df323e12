"""Existing clusters and clusters of kind. The tests use their own node as such a cluster."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import LocalClusterError, Node, cluster, remove_cluster
from localcluster.cache import cache_dir
from localcluster.sandbox.processes import wait_until

pytestmark = pytest.mark.timeout(120)


def test_existing_cluster_accepts_an_image_that_its_nodes_have(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = ("get", "node", "used", "-o", "jsonpath={.status.images}")
    wait_until(lambda: "localhost/busybox:1" in node.kubectl(*listing), "the node to list its images", 30)
    monkeypatch.setenv("KUBECONFIG", str(node.kubeconfig))
    cluster().load_image("localhost/busybox:1")


def test_error_names_the_node_of_an_existing_cluster_without_image(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(node.kubeconfig))
    with pytest.raises(LocalClusterError) as refused:
        cluster().build_image("operator", "localhost/absent:1")
    assert str(refused.value) == (
        f"Node used of the cluster in {node.kubeconfig} has no image localhost/absent:1. Load the image on that "
        "node, or unset KUBECONFIG to use a local cluster."
    )


def test_existing_cluster_is_not_removed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(node.kubeconfig))
    remove_cluster()
    assert "used" in node.kubectl("get", "nodes")


def test_removal_of_a_missing_cluster_creates_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    remove_cluster("never-started")
    assert not (cache_dir() / "run" / "never-started").exists()


# Use a separate cluster name for each test process. The processes share the cache, and the cache has one kubectl
# configuration per cluster name.
THERE = f"there-{os.getpid()}"


@pytest.fixture
def calls(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Programs named kind, docker and podman that record their calls.

    The node of the tests acts as the cluster of kind.
    """
    calls = tmp_path / "calls"
    for name in ("kind", "docker", "podman"):
        program = tmp_path / name
        program.write_text(
            f"""#!/bin/sh
case "$*" in
  *" /dev/stdin "*) fed=" < $(cat)";;
  "get kubeconfig"*) cat {node.kubeconfig};;
  "get clusters") echo {THERE};;
  "get nodes"*) echo one; echo two;;
  "image inspect localhost/absent:1") echo no such image >&2; exit 125;;
  "save "*) echo "archive of $2";;
esac
echo "{name} $*$fed" >> {calls}
"""
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    yield calls
    remove_cluster(THERE)


def test_kind_is_used_when_docker_answers(calls: Path) -> None:
    cluster(THERE).build_image("operator", "localhost/operator:1", {"VERSION": "1"})
    recorded = calls.read_text()
    assert "kind create" not in recorded
    assert "docker build --target operator --tag localhost/operator:1 --build-arg VERSION=1 " in recorded
    assert f"kind load docker-image localhost/operator:1 --name {THERE}" in recorded


def test_podman_images_are_piped_to_every_node(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    cluster(THERE).build_image("operator", "localhost/operator:1")
    recorded = calls.read_text()
    load = f"kind load image-archive /dev/stdin --name {THERE} --nodes"
    assert "podman build --target operator --tag localhost/operator:1 " in recorded
    assert f"{load} one < archive of localhost/operator:1\n" in recorded
    assert f"{load} two < archive of localhost/operator:1\n" in recorded
    assert not any(line.startswith("docker ") for line in recorded.splitlines())


def test_error_names_an_image_that_is_missing_in_podman(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    with pytest.raises(LocalClusterError, match="`podman image inspect localhost/absent:1` failed: no such image"):
        cluster(THERE).load_image("localhost/absent:1")
    assert calls.exists()


def test_kind_cluster_is_created_when_missing_and_removed_on_request(calls: Path) -> None:
    cluster("fresh")
    remove_cluster("fresh")
    recorded = calls.read_text().splitlines()
    assert "kind create cluster --name fresh --wait 120s" in recorded
    assert recorded[-1] == "kind delete cluster --name fresh"


def test_nodes_of_kind_get_cards(node: Node, calls: Path) -> None:
    remove = [{"op": "remove", "path": "/status/capacity/habana.ai~1gaudi"}]
    node.kubectl("patch", "node", "used", "--subresource=status", "--type=json", "-p", json.dumps(remove))
    cluster(THERE)
    assert node.kubectl("get", "node", "used", "-o", r"jsonpath={.status.capacity.habana\.ai/gaudi}") == "8"
    assert calls.exists()
