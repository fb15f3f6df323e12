"""Which cluster is used: the one that the user gives, else kind, else a node of our own."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from localcluster import archive, build
from localcluster.cache import cache_dir
from localcluster.control_plane import run_kubectl
from localcluster.errors import LocalClusterError
from localcluster.machine import clean_up
from localcluster.node import ensure_node
from localcluster.prepare import prepare
from localcluster.progress import step
from localcluster.worker import card_patch

_PROJECT = Path(__file__).parents[1]


class Cluster(Protocol):
    """A cluster to install to, whoever runs it."""

    kubeconfig: Path

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator; returns its output, LocalClusterError with its own words."""

    def build_image(self, target: str, tag: str, arguments: Mapping[str, str] | None = None) -> None:
        """Make the Dockerfile's `target` available to pods as `tag`."""

    def load_image(self, tag: str) -> None:
        """Make an image that was built before available to pods."""

    def folder_image(self, folder: Path, tag: str) -> None:
        """Make the files of `folder` available as an image, for image volumes."""


def cluster(name: str = "gaudi", images: Mapping[str, str] | None = None) -> Cluster:
    """The cluster of `KUBECONFIG`, else kind's where Docker answers, else our node `name`; started if need be.

    Its pods find `images` (target of the Dockerfile -> name). It stays until `remove_cluster`.
    Raises LocalClusterError with what to install or run where none is possible.
    """
    wanted = images or {}
    if given := os.environ.get("KUBECONFIG"):
        return _with_images(GivenCluster(Path(given)), wanted)
    if kind := _kind():
        return _with_images(KindCluster(kind, name), wanted)
    if os.uname().sysname != "Linux" or os.geteuid() != 0:
        raise LocalClusterError(
            "No cluster to use: set KUBECONFIG to one, or start Docker and install kind,"
            " or run the same command as root on Linux (it then starts a node of its own)."
        )
    prepare(wanted)
    node = ensure_node(_run_dir(name), name)
    for tag in wanted.values():
        node.load_image(tag)
    return node


def _with_images(found: Cluster, wanted: Mapping[str, str]) -> Cluster:
    for target, tag in wanted.items():
        found.build_image(target, tag)
    return found


def remove_cluster(name: str = "gaudi") -> None:
    """Remove what `cluster(name)` made, if anything; a cluster that the user gave is left alone."""
    if os.environ.get("KUBECONFIG"):
        return
    if kind := _kind():
        _run(kind, "delete", "cluster", "--name", name)
        _kind_config(name).unlink(missing_ok=True)
    else:
        clean_up(_run_dir(name))


class GivenCluster:
    """The cluster that the user gives; images come to its nodes by the user's own means."""

    def __init__(self, kubeconfig: Path) -> None:
        """Use the current context of `kubeconfig`."""
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as whoever the kubeconfig says."""
        return run_kubectl(_kubectl(), self.kubeconfig, arguments, stdin)

    def build_image(self, target: str, tag: str, arguments: Mapping[str, str] | None = None) -> None:
        """See that the nodes have the image; nothing is built."""
        self.load_image(tag)

    def folder_image(self, folder: Path, tag: str) -> None:
        """See that the nodes have the image; nothing is packed."""
        self.load_image(tag)

    def load_image(self, tag: str) -> None:
        """See that every node has the image."""
        for node in json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]:
            if not any(tag in (image.get("names") or ()) for image in node["status"].get("images", [])):
                raise LocalClusterError(
                    f"Node {node['metadata']['name']} of the cluster in {self.kubeconfig} has no image {tag}:"
                    " load it there, or unset KUBECONFIG to use a local cluster."
                )


class KindCluster:
    """A cluster by kind, with images by Docker."""

    def __init__(self, kind: str, name: str) -> None:
        """Use kind's cluster `name`; it is created when missing."""
        self._kind, self._name = kind, name
        self.kubeconfig = _kind_config(name)
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        if name not in _run(kind, "get", "clusters").split():
            with step(f"Creating the kind cluster {name}"):
                _run(kind, "create", "cluster", "--name", name, "--wait", "120s")
        self.kubeconfig.write_text(_run(kind, "get", "kubeconfig", "--name", name))
        self.kubeconfig.chmod(0o600)
        for node in self.kubectl("get", "nodes", "-o", "name").split():
            self.kubectl("patch", node, "--subresource=status", "--type=json", "-p", json.dumps(card_patch()))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator."""
        return run_kubectl(_kubectl(), self.kubeconfig, arguments, stdin)

    def build_image(self, target: str, tag: str, arguments: Mapping[str, str] | None = None) -> None:
        """Build with Docker and load."""
        options = [option for item in (arguments or {}).items() for option in ("--build-arg", "=".join(item))]
        with step(f"Building the {target} image"):
            _run("docker", "build", "--target", target, "--tag", tag, *options, str(_PROJECT))
        self.load_image(tag)

    def load_image(self, tag: str) -> None:
        """Copy an image of Docker to the nodes."""
        with step(f"Loading {tag} into kind"):
            _run(self._kind, "load", "docker-image", tag, "--name", self._name)

    def folder_image(self, folder: Path, tag: str) -> None:
        """Pack the folder and copy the image to the nodes."""
        with tempfile.TemporaryDirectory() as drafts:
            image = Path(drafts) / "image.tar"
            archive.write_folder_image(image, tag, folder)
            _run(self._kind, "load", "image-archive", str(image), "--name", self._name)


def _run_dir(name: str) -> Path:
    return cache_dir() / "run" / name


def _kind_config(name: str) -> Path:
    return cache_dir() / "run" / f"kind-{name}.kubeconfig"


def _kind() -> str | None:
    """kind, where it is installed and a Docker daemon answers."""
    kind, docker = shutil.which("kind"), shutil.which("docker")
    if not kind or not docker:
        return None
    answered = subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0
    return kind if answered else None


def _kubectl() -> Path:
    """The user's own kubectl fits their cluster best."""
    return Path(shutil.which("kubectl") or build.kubernetes() / "kubectl")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-1000:]}")
    return done.stdout
