"""The compared operators, each a process with administrator permissions."""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zlib import crc32

import psutil
import yaml

from gaudi_operator.api.crd import crds_yaml
from localcluster import ControlPlane
from localcluster.cache import ensure_cached
from localcluster.programs import build
from localcluster.progress import step
from localcluster.sandbox.processes import Identity, wait_until
from tests.benchmarks.peers.workloads import KUBERAY, LEADER_WORKER_SETS, OURS, Workload

_KUBERAY = Path(__file__).parent / "kuberay"
_WEBHOOK_PORT = 19443


@dataclass(frozen=True)
class Program:
    """One operator: its `version`, its `workload`, the manifests to be `installed`, and the `command` that runs it.

    The resources of an operator are in the namespace with the operator's name.
    """

    name: str
    version: str
    workload: Workload
    installed: Callable[[ControlPlane], str]
    command: Callable[[ControlPlane], list[str]]
    environment: Callable[[ControlPlane], dict[str, str]] = lambda _: {}

    def install(self, plane: ControlPlane) -> None:
        """Install the operator's definitions, and create an account by which the audit log identifies the operator."""
        plane.kubectl("create", "namespace", self.name)
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=self.installed(plane))
        plane.authority.issue(self.name, self.name, "system:masters")
        plane.write_user_kubeconfig(self.name, self.kubeconfig(plane))
        group, _, _ = self.workload.make("any")["apiVersion"].partition("/")
        served = ("api-resources", f"--api-group={group}", "--output=name")
        plane.wait(lambda: group in plane.kubectl(*served), f"{self.workload.kind} to be served")

    def kubeconfig(self, plane: ControlPlane) -> Path:
        """Return the path of the kubeconfig of the operator's account."""
        return plane.run_dir / f"{self.name}.kubeconfig"


class Running:
    """A running program, as an async context manager."""

    def __init__(self, program: Program, plane: ControlPlane) -> None:
        """Prepare the program without starting it."""
        self._program, self._plane = program, plane
        self._process: psutil.Popen | None = None

    async def __aenter__(self) -> Self:
        """Start the program."""
        path = self._plane.run_dir / "log" / f"{self._program.name}.log"
        kubeconfig = str(self._program.kubeconfig(self._plane))
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._plane.run_dir), "KUBECONFIG": kubeconfig}
        environment |= self._program.environment(self._plane)
        with path.open("a") as log:
            self._process = psutil.Popen(self._program.command(self._plane), env=environment, stdout=log, stderr=log)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the program in the same way as a kubelet."""
        assert self._process
        self._process.send_signal(signal.SIGTERM)
        identity = Identity.of(self._process.pid)
        try:
            await asyncio.to_thread(wait_until, lambda: self._process is None or self._over(), "its end", 20.0)
        finally:
            identity.kill()

    def _over(self) -> bool:
        assert self._process
        return self._process.poll() is not None

    def _tree(self) -> list[psutil.Process]:
        assert self._process
        if self._over():
            log = self._plane.run_dir / "log" / f"{self._program.name}.log"
            raise AssertionError(f"{self._program.name} ended by itself: {log.read_text()[-2000:]}")
        return [self._process, *self._process.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Return the processor time of all processes of the program so far."""
        return float(sum(sum(each.cpu_times()[:2]) for each in self._tree()))

    def mebibytes(self) -> float:
        """Return the memory of all processes of the program, with shared pages counted once."""
        return float(sum(each.memory_full_info().pss for each in self._tree()) / 2**20)


def _ours_command(_: ControlPlane) -> list[str]:
    return [sys.executable, "-m", "gaudi_operator", "run"]


def _ours_environment(_: ControlPlane) -> dict[str, str]:
    chosen = {"RUNTIME_IMAGE": "registry.test/runtime:1", "HPU_IMAGE": "registry.test/runtime-hpu:1"}
    chosen |= {"NAMESPACE": "default", "HTTP_HOST": "127.0.0.1", "HTTP_PORT": "0", "LOG_FORMAT": "json"}
    return {f"GAUDI_OPERATOR_{name}": value for name, value in chosen.items()}


def _lws_installed(plane: ControlPlane) -> str:
    config = build.leader_worker_sets() / "config"
    plane.authority.issue("webhook", "webhook", hosts=(plane.addresses.loopback,))
    certificates = plane.run_dir / "webhook"
    certificates.mkdir(exist_ok=True)
    for ours, theirs in (("crt", "tls.crt"), ("key", "tls.key")):
        (certificates / theirs).write_bytes((plane.run_dir / "pki" / f"webhook.{ours}").read_bytes())
    (plane.run_dir / "lws.yaml").write_text(yaml.safe_dump(_lws_configuration(plane)))
    definitions = [path.read_text() for path in sorted((config / "crd" / "bases").glob("*.yaml"))]
    webhooks = yaml.safe_load_all((config / "webhook" / "manifests.yaml").read_text())
    # The LeaderWorkerSet manager stores its Lease in this namespace. The namespace cannot be configured.
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lws-system"}}
    others = [home, *(_route_webhooks_to_host(each, plane) for each in webhooks if each)]
    return "\n---\n".join((*definitions, yaml.safe_dump_all(others)))


def _lws_configuration(plane: ControlPlane) -> dict[str, Any]:
    webhook = {"port": _WEBHOOK_PORT, "host": plane.addresses.loopback, "certDir": str(plane.run_dir / "webhook")}
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "webhook": webhook,
    }


def _route_webhooks_to_host(configuration: dict[str, Any], plane: ControlPlane) -> dict[str, Any]:
    """Route the webhooks to a process on this host, for the objects of this benchmark only."""
    authority = (plane.run_dir / "pki" / "ca.crt").read_bytes()
    for each in configuration["webhooks"]:
        path = each["clientConfig"]["service"]["path"]
        url = f"https://{plane.addresses.loopback}:{_WEBHOOK_PORT}{path}"
        each["clientConfig"] = {"url": url, "caBundle": _base64(authority)}
        each["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": LWS.name}}
    return configuration


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _lws_command(plane: ControlPlane) -> list[str]:
    manager = build.leader_worker_sets() / "image" / "manager"
    return [str(manager), f"--config={plane.run_dir / 'lws.yaml'}"]


def kuberay() -> Path:
    """Return the folder of the KubeRay program, which is built on the first call."""

    def make(folder: Path) -> None:
        with step("Building KubeRay", 300):
            build.go(["build", "-trimpath", "-ldflags=-s -w", "-o", str(folder / "manager"), "tool"], _KUBERAY)

    pins = b"".join((_KUBERAY / name).read_bytes() for name in ("go.mod", "go.sum"))
    return ensure_cached(f"kuberay-{crc32(pins):08x}", make) / "manager"


def _ray_installed(_: ControlPlane) -> str:
    source = build.go(["list", "-m", "-f", "{{.Dir}}", "github.com/ray-project/kuberay/ray-operator"], _KUBERAY).strip()
    bases = Path(source) / "config" / "crd" / "bases"
    return "\n---\n".join(path.read_text() for path in sorted(bases.glob("*.yaml")))


def _ray_command(plane: ControlPlane) -> list[str]:
    addresses = ("--metrics-addr=0", f"--health-probe-bind-address={plane.addresses.loopback}:28783")
    return [str(kuberay()), *addresses, "--leader-election-namespace=default"]


OUR_OPERATOR = Program("ours", "", OURS, lambda _: crds_yaml(), _ours_command, _ours_environment)
LWS = Program("lws", build.LEADER_WORKER_SETS, LEADER_WORKER_SETS, _lws_installed, _lws_command)
RAY = Program("kuberay", "1.5.1", KUBERAY, _ray_installed, _ray_command)
