"""A complete node: control plane, containerd, kubelet, kube-proxy and cluster DNS, in its own sandbox."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

from localcluster.cache import exclusive
from localcluster.control_plane.control_plane import ControlPlane, run_kubectl
from localcluster.errors import LocalClusterError
from localcluster.images import archive, images
from localcluster.node import load, worker
from localcluster.node.machine import clean_up, image_store, open_sandbox
from localcluster.node.policies import CHAIN, filter_rules
from localcluster.node.state import State, read_state
from localcluster.programs import build, debian
from localcluster.progress import step
from localcluster.sandbox import network
from localcluster.sandbox.sandbox import Sandbox

Profile = Literal["node", "control-plane"]


class Node:
    """One Kubernetes node with `habana.ai/gaudi: 8`, with all its state in `run_dir`.

    As a context manager, the node ends with the block, or with the process. After `start` and `detach`, the node keeps
    running, and other processes find the node with `Node.find(run_dir)`.
    """

    def __init__(self, run_dir: Path, name: str = "gaudi", profile: Profile = "node") -> None:
        """Create the node without starting it. `name` is the node's name."""
        self.run_dir = run_dir.absolute()
        self.name = name
        self.profile = profile
        self.kubeconfig = self.run_dir / "kubeconfig"
        self._sandbox: Sandbox | None = None
        self._control_plane: ControlPlane | None = None
        self._state: State | None = None

    @classmethod
    def find(cls, run_dir: Path) -> "Node | None":
        """Return the node that runs in `run_dir`, even if another process started the node, or None if no node runs."""
        state = read_state(run_dir)
        if state is None or not state.ready or not state.init.alive:
            return None
        node = cls(run_dir, state.name, cast(Profile, state.profile))
        node._sandbox = Sandbox(state.init, isolated=True)
        node._state = state
        return node

    def __enter__(self) -> Self:
        """Start the node. If the start fails or is interrupted, remove everything."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the node."""
        self.stop()

    def start(self) -> None:
        """Start all components, and return when the node is Ready, has its cards, and DNS answers.

        Raises LocalClusterError if permissions or tools are missing, or if a component ends.
        """
        self._require_tools()
        with _start_lock(self.run_dir):
            if Node.find(self.run_dir):
                raise LocalClusterError(f"A node is already running in {self.run_dir}: stop it first.")
            self._start()

    def stop(self) -> None:
        """Stop all components immediately, and remove everything except the logs and the image store."""
        if self._control_plane:
            self._control_plane.stop()
        if self._sandbox:
            self._sandbox.kill()
        clean_up(self.run_dir)
        self._control_plane = self._sandbox = self._state = None

    def detach(self) -> None:
        """Let the node outlive this process."""
        if self._sandbox:
            self._sandbox.detach()
        if self._control_plane:
            self._control_plane.close_client()
            self._control_plane = None

    @property
    def slot(self) -> int:
        """The slot of the running node."""
        return self._require_running()[1].slot

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its output.

        Raises LocalClusterError with the error output of kubectl.
        """
        return run_kubectl(build.kubernetes() / "kubectl", self.kubeconfig, arguments, stdin)

    def restart_apiserver(self) -> None:
        """Kill the API server and restart it with the same state.

        Only the process that started the node can do this.
        """
        if self._control_plane is None:
            raise LocalClusterError("Only the process that started the node can restart its components.")
        self._control_plane.restart_apiserver()

    def ctr(self, *arguments: str) -> str:
        """Run containerd's command line on the node and return its output."""
        return self._require_running()[0].run(*_ctr(), *arguments)

    def enforce_policies(self) -> None:
        """Apply the current NetworkPolicies to packets for pods.

        Later changes of pods or policies need another call.
        """
        pods, namespaces, policies = (
            json.loads(self.kubectl("get", kind, "--all-namespaces", "--output=json"))["items"]
            for kind in ("pods", "namespaces", "networkpolicies")
        )
        network.filter_forwarded(self._require_running()[0], filter_rules(pods, namespaces, policies), CHAIN)

    def build_image(self, target: str, tag: str, arguments: Mapping[str, str] | None = None) -> None:
        """Build the Dockerfile's `target` as `tag` and load the image, so that pods find it without pulling."""
        images.build_image(target, tag, arguments)
        self.load_image(tag)

    def load_folder(self, folder: Path, tag: str) -> None:
        """Pack the files of `folder` into the image `tag`, for image volumes, and load it."""
        with tempfile.TemporaryDirectory() as temporary_folder:
            image_archive = Path(temporary_folder) / "image.tar"
            archive.write_folder_image(image_archive, tag, folder)
            self._delete_image(tag)
            self.ctr("images", "import", "--local", str(image_archive))

    def load_image(self, tag: str) -> None:
        """Load an image that buildah has already built."""
        sandbox, state = self._require_running()
        import_command = sandbox.wrap_command(*_ctr(), "images", "import", "--local", "-")
        load.load_image(tag, image_store(state.slot), import_command)

    def _delete_image(self, tag: str) -> None:
        """Delete containerd's record of a replaced image, so that image volumes get the new image of this name."""
        if tag in self.ctr("images", "ls", "-q").split():
            self.ctr("images", "rm", tag)

    def _require_running(self) -> tuple[Sandbox, State]:
        if self._sandbox is None or self._state is None:
            raise LocalClusterError(f"The node {self.name} is not running: start it first.")
        return self._sandbox, self._state

    def _require_tools(self) -> None:
        if os.geteuid() != 0:
            raise LocalClusterError("A local node needs root: run the same command with sudo.")
        debian.require(debian.NODE if self.profile == "node" else debian.CONTROL_PLANE)
        build.kubernetes()
        if self.profile == "node":
            build.containerd()
            build.coredns()

    def _start(self) -> None:
        try:
            clean_up(self.run_dir)
            with step(f"Starting Kubernetes {build.KUBERNETES} ({self.profile} {self.name})"):
                self._start_components()
        except BaseException:
            self.stop()
            raise

    def _start_components(self) -> None:
        self._sandbox, self._state = open_sandbox(self.run_dir, self.name, self.profile)
        self._control_plane = plane = ControlPlane(
            self.run_dir, scheduler=True, sandbox=self._sandbox, addresses=self._state.addresses
        )
        if self.profile == "control-plane":
            plane.start()
        else:
            self._start_node(plane, self._sandbox, self._state)
        self._state = replace(self._state, ready=True)
        self._state.write(self.run_dir)

    def _start_node(self, plane: ControlPlane, sandbox: Sandbox, state: State) -> None:
        """Start the node's components. Components without dependencies start concurrently with the API server."""
        network.refuse_unknown_services(sandbox, state.addresses)
        worker.start_runtime(plane, self.run_dir, image_store(state.slot))
        plane.begin()
        worker.await_runtime(plane, self.ctr)
        plane.start_controllers()
        worker.join(plane, self.run_dir, self.name)
        plane.wait_controllers()


def ensure_node(run_dir: Path, name: str, profile: Profile = "node") -> Node:
    """Return the node that runs in `run_dir`, or start a node that outlives this process.

    Raises LocalClusterError if the running node has another profile.
    """
    node = Node(run_dir, name, profile)
    node._require_tools()
    with _start_lock(run_dir):
        if running_node := Node.find(run_dir):
            if running_node.profile != profile:
                raise LocalClusterError(
                    f"{name} runs with profile {running_node.profile}. Stop that node, or use another name."
                )
            return running_node
        node._start()
        node.detach()
    return node


def _start_lock(run_dir: Path) -> AbstractContextManager[None]:
    """Lock the folder during a start.

    Otherwise, a concurrent start would remove the first node as remains of a crash.
    """
    return exclusive(run_dir.with_name(f".{run_dir.name}.lock"))


def _ctr() -> list[str]:
    return [str(build.containerd() / "ctr"), "--namespace", "k8s.io"]
