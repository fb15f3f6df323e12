"""A control plane: etcd, API server, controllers and optionally the scheduler."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster.control_plane import components
from localcluster.control_plane.api import ApiServer
from localcluster.control_plane.certificates import Authority, new_key, write_key
from localcluster.control_plane.kubeconfig import write_kubeconfig
from localcluster.errors import LocalClusterError
from localcluster.programs import build, debian
from localcluster.sandbox import network
from localcluster.sandbox.addresses import Addresses
from localcluster.sandbox.processes import Identity, wait_for_end, wait_until
from localcluster.sandbox.sandbox import Sandbox

_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
_START_SECONDS = 60


class ControlPlane:
    """A control plane in the network of the caller, with its state in `run_dir`.

    Without a node (`with ControlPlane(folder) as plane`), it runs in the caller's network namespace with `ip` on `lo`,
    and always ends with the caller. A node passes a `sandbox` and `addresses`.
    """

    def __init__(
        self,
        run_dir: Path,
        ip: str = "10.200.0.1",
        *,
        scheduler: bool = False,
        sandbox: Sandbox | None = None,
        addresses: Addresses | None = None,
        audited: bool = False,
    ) -> None:
        """Create the control plane without starting it.

        With `audited`, write each request to `run_dir`/audit.log as JSON.
        """
        self.run_dir = run_dir.absolute()
        self.addresses = addresses or Addresses(node_ip=ip)
        self.kubeconfig = self.run_dir / "kubeconfig"
        self._scheduler = scheduler
        self._audited = audited
        self._given_sandbox = sandbox
        self._sandbox = sandbox
        self._added_address = False
        self._processes: dict[str, Identity] = {}
        self._api: ApiServer | None = None

    def __enter__(self) -> Self:
        """Start the control plane. If the start fails or is interrupted, remove everything."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the control plane."""
        self.stop()

    def start(self) -> None:
        """Start the components, and return when the API server is ready and the controllers run."""
        self.begin()
        self.start_controllers()
        self.wait_controllers()

    def begin(self) -> None:
        """Start etcd and the API server, and return before they are ready."""
        build.kubernetes()
        if self._given_sandbox is None:
            debian.require(debian.CONTROL_PLANE)
            self._added_address = network.add_loopback_address(self.addresses.node_ip)
            self._sandbox = Sandbox.create(isolated=False)
        self._prepare()
        self.launch(components.etcd(self.run_dir, self.addresses))
        self._launch_apiserver()

    def start_controllers(self) -> None:
        """Wait until the API server is ready, and start its clients."""
        self.wait(self.api.is_ready, "the API server to be ready")
        self.launch(components.controller_manager(self.run_dir, self.addresses))
        if self._scheduler:
            self.launch(components.scheduler(self.run_dir, self.addresses))

    def wait_controllers(self) -> None:
        """Wait for the default service account, which pods need.

        After the controller manager has created this account, the account remains after a restart of the API server.
        """
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait(lambda: self.api.exists(account), "the controllers to make the default service account")

    def stop(self) -> None:
        """Stop all components immediately. The state in etcd is lost."""
        self.close_client()
        if self._given_sandbox is None and self._sandbox:
            self._sandbox.kill()
            self._sandbox = None
        if self._added_address:
            network.remove_loopback_address(self.addresses.node_ip)
            self._added_address = False
        shutil.rmtree(self.run_dir / "etcd", ignore_errors=True)

    def close_client(self) -> None:
        """Close our own connection to the API server."""
        if self._api:
            self._api.close()
            self._api = None

    @property
    def api(self) -> ApiServer:
        """The administrator's client of the API server."""
        if self._api is None:
            self._api = ApiServer(self.addresses.server, self.run_dir / "pki")
        return self._api

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        self._launch_apiserver()
        self.wait(self.api.is_ready, "the API server to be ready")

    def stop_apiserver(self) -> None:
        """Kill the API server, as in a crash. Its clients lose their connections."""
        self.kill_component("kube-apiserver")

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again with the same state."""
        self.stop_apiserver()
        self.start_apiserver()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its output.

        Raises LocalClusterError with the error output of kubectl.
        """
        return run_kubectl(build.kubernetes() / "kubectl", self.kubeconfig, arguments, stdin)

    def launch(self, command: list[str], folder: Path | None = None) -> None:
        """Start the component `command[0]` from `folder` (by default, the folder of Kubernetes) in the sandbox."""
        name, *flags = command
        if self._sandbox is None:
            raise LocalClusterError("The control plane is not running: start it first.")
        binary = (folder or build.kubernetes()) / name
        log = self.run_dir / "log" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        self._processes[name] = self._sandbox.spawn([str(binary), *flags], log, self._environment(binary.parent))

    def _launch_apiserver(self) -> None:
        self.launch(components.apiserver(self.run_dir, self.addresses, audited=self._audited))

    def kill_component(self, name: str) -> None:
        """Kill the component `name`."""
        process = self._processes.pop(name)
        process.kill()
        wait_for_end(process)

    def wait(self, condition: Callable[[], bool], description: str, timeout: float = _START_SECONDS) -> None:
        """Wait for `condition`.

        Raises LocalClusterError after `timeout` seconds, or immediately if a component ends.
        """

        def holds() -> bool:
            for name, process in self._processes.items():
                if not process.alive:
                    raise LocalClusterError(f"{name} ended unexpectedly. Its last output: {self._tail(name)}")
            return condition()

        wait_until(holds, description, timeout)

    def _tail(self, name: str) -> str:
        lines = (self.run_dir / "log" / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:])

    def _environment(self, folder: Path) -> dict[str, str]:
        """Return an environment without proxies and KUBECONFIG. PATH is the caller's, because it may contain runc."""
        return {"PATH": f"{folder}:{debian.environment()['PATH']}", "HOME": str(self.run_dir)}

    def _prepare(self) -> None:
        shutil.rmtree(self.run_dir / "etcd", ignore_errors=True)
        pki, addresses = self.run_dir / "pki", self.addresses
        authority = Authority.create(pki)
        hosts = (*_SERVICE_NAMES, "kubernetes.default.svc.cluster.local", addresses.node_ip, addresses.kubernetes_ip)
        authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        authority.issue("admin", "admin", "system:masters")
        authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        # Use a separate certificate authority, because the holder of a front-proxy certificate may act as any user.
        Authority.create(pki / "front-proxy").issue("client", "front-proxy-client")
        write_key(pki / "service-account.key", new_key())
        self.write_user_kubeconfig("admin", self.kubeconfig)
        for component in ("controller-manager", "scheduler"):
            authority.issue(component, f"system:kube-{component}")
            self.write_user_kubeconfig(component, self.run_dir / f"{component}.kubeconfig")
        self.authority = authority

    def write_user_kubeconfig(self, user: str, path: Path) -> None:
        """Write a kubeconfig with the certificate of `user`, which the authority has issued."""
        write_kubeconfig(path, self.addresses.server, self.run_dir / "pki", user, self.run_dir.name)


def run_kubectl(kubectl: Path, kubeconfig: Path, arguments: Sequence[str], stdin: str | None = None) -> str:
    """Run kubectl against a cluster and return its output.

    Raises LocalClusterError with the error output of kubectl.
    """
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    command = [str(kubectl), *arguments]
    process = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)
    if process.returncode:
        raise LocalClusterError(f"`kubectl {' '.join(arguments)}` failed: {process.stderr.strip()}")
    return process.stdout
