"""The choice of a cluster: first the cluster of KUBECONFIG, then kind's cluster, then a node of our own."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Protocol

from localcluster.cache import cache_dir
from localcluster.control_plane.control_plane import run_kubectl
from localcluster.errors import LocalClusterError
from localcluster.images import archive
from localcluster.node.machine import clean_up
from localcluster.node.node import ensure_node
from localcluster.node.worker import card_patch
from localcluster.programs import build
from localcluster.programs.prepare import prepare
from localcluster.progress import step

_PROJECT = Path(__file__).parents[1]


class Cluster(Protocol):
    """A cluster to install to, of any kind."""

    kubeconfig: Path

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its output. Raises LocalClusterError with the error output."""

    def build_image(self, target: str, tag: str, arguments: Mapping[str, str] | None = None) -> None:
        """Make the Dockerfile's `target` available to pods as `tag`."""

    def load_image(self, tag: str) -> None:
        """Make an existing image available to pods."""

    def load_folder(self, folder: Path, tag: str) -> None:
        """Make the files of `folder` available as an image, for image volumes."""


def cluster(name: str = "gaudi", images: Mapping[str, str] | None = None) -> Cluster:
    """Return the cluster of `KUBECONFIG`, or kind's cluster if its engine answers, or our node `name`.

    The cluster is started if necessary, and stays until `remove_cluster`. Its pods can use `images` (target of the
    Dockerfile -> name). If no cluster is possible, raises LocalClusterError with the remedy.
    """
    image_tags = images or {}
    if kubeconfig := os.environ.get("KUBECONFIG"):
        return _add_images(GivenCluster(Path(kubeconfig)), image_tags)
    if kind := _kind():
        return _add_images(KindCluster(kind, _engine(), name), image_tags)
    if os.uname().sysname != "Linux" or os.geteuid() != 0:
        raise LocalClusterError(
            "There is no cluster to use. Set KUBECONFIG, or install kind and start Docker"
            " (or Podman, with KIND_EXPERIMENTAL_PROVIDER=podman),"
            " or run the same command as root on Linux, which starts a local node."
        )
    prepare(image_tags)
    node = ensure_node(_run_dir(name), name)
    for tag in image_tags.values():
        node.load_image(tag)
    return node


def uses_own_node() -> bool:
    """Return True if `cluster` would start a node of our own: neither KUBECONFIG nor kind selects another cluster."""
    return not os.environ.get("KUBECONFIG") and _kind() is None


def _add_images(cluster: Cluster, image_tags: Mapping[str, str]) -> Cluster:
    for target, tag in image_tags.items():
        cluster.build_image(target, tag)
    return cluster


def remove_cluster(name: str = "gaudi") -> None:
    """Remove the cluster that `cluster(name)` created, if any. A cluster of KUBECONFIG is not changed."""
    if os.environ.get("KUBECONFIG"):
        return
    if kind := _kind():
        _run(kind, "delete", "cluster", "--name", name)
        _kind_config(name).unlink(missing_ok=True)
    else:
        clean_up(_run_dir(name))


class GivenCluster:
    """The cluster of KUBECONFIG. The user must make images available to its nodes."""

    def __init__(self, kubeconfig: Path) -> None:
        """Use the current context of `kubeconfig`."""
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the user of the kubeconfig."""
        return run_kubectl(_kubectl(), self.kubeconfig, arguments, stdin)

    def build_image(self, target: str, tag: str, arguments: Mapping[str, str] | None = None) -> None:
        """Check that the nodes have the image, without building it."""
        self.load_image(tag)

    def load_folder(self, folder: Path, tag: str) -> None:
        """Check that the nodes have the image, without packing it."""
        self.load_image(tag)

    def load_image(self, tag: str) -> None:
        """Check that every node has the image."""
        for node in json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]:
            if not any(tag in (image.get("names") or ()) for image in node["status"].get("images", [])):
                raise LocalClusterError(
                    f"Node {node['metadata']['name']} of the cluster in {self.kubeconfig} has no image {tag}. Load "
                    "the image on that node, or unset KUBECONFIG to use a local cluster."
                )


class KindCluster:
    """A cluster of kind whose nodes are containers of `engine`, with images of the same engine."""

    def __init__(self, kind: str, engine: str, name: str) -> None:
        """Use kind's cluster `name`, which is created if it is missing."""
        self._kind, self._engine, self._name = kind, engine, name
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
        """Build an image and load it."""
        options = [option for argument in (arguments or {}).items() for option in ("--build-arg", "=".join(argument))]
        with step(f"Building the {target} image"):
            _run(self._engine, "build", "--target", target, "--tag", tag, *options, str(_PROJECT))
        self.load_image(tag)

    def load_image(self, tag: str) -> None:
        """Copy an image from the engine to the nodes."""
        with step(f"Loading {tag} into kind"):
            if self._engine == "docker":
                _run(self._kind, "load", "docker-image", tag, "--name", self._name)
            else:
                self._pipe_image(tag)

    def _pipe_image(self, tag: str) -> None:
        """Load an archive of the engine's image, because `kind load docker-image` requires Docker for every provider.

        The archive is piped to one node after the other, so that an image of several gigabytes takes no additional disk
        space.
        """
        _run(self._engine, "image", "inspect", tag)  # reports a missing image more clearly than an empty pipe
        load_command = (self._kind, "load", "image-archive", "/dev/stdin", "--name", self._name, "--nodes")
        for node in _run(self._kind, "get", "nodes", "--name", self._name).split():
            with subprocess.Popen([self._engine, "save", tag], stdout=subprocess.PIPE) as save_process:
                _run(*load_command, node, stdin=save_process.stdout)
            if save_process.returncode:
                raise LocalClusterError(f"`{self._engine} save {tag}` failed: its error is printed above.")

    def load_folder(self, folder: Path, tag: str) -> None:
        """Pack the folder and copy the image to the nodes."""
        with tempfile.TemporaryDirectory() as temporary_folder:
            image_archive = Path(temporary_folder) / "image.tar"
            archive.write_folder_image(image_archive, tag, folder)
            _run(self._kind, "load", "image-archive", str(image_archive), "--name", self._name)


def _run_dir(name: str) -> Path:
    return cache_dir() / "run" / name


def _kind_config(name: str) -> Path:
    return cache_dir() / "run" / f"kind-{name}.kubeconfig"


def _kind() -> str | None:
    """Return the path of kind if it is installed and its engine answers."""
    kind, engine = shutil.which("kind"), shutil.which(_engine())
    if not kind or not engine:
        return None
    engine_runs = subprocess.run([engine, "info"], capture_output=True, check=False).returncode == 0
    return kind if engine_runs else None


def _engine() -> str:
    """Return Docker, or the engine in kind's own variable.

    If Docker is missing, kind uses Podman. This project does not, because many machines have Podman for other purposes,
    and on Linux our own node starts faster.
    """
    return os.environ.get("KIND_EXPERIMENTAL_PROVIDER") or "docker"


def _kubectl() -> Path:
    """Return the user's own kubectl, whose version fits the cluster best, or the kubectl that we build."""
    return Path(shutil.which("kubectl") or build.kubernetes() / "kubectl")


def _run(*command: str, stdin: IO[bytes] | None = None) -> str:
    process = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    if process.returncode:
        raise LocalClusterError(f"`{' '.join(command)}` failed: {process.stderr.strip()[-1000:]}")
    return process.stdout
