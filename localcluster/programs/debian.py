"""The Debian packages of the cluster, and their installation, which never removes a package."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.progress import step

# Each package is detected by a program on PATH or by a file, because other packages may contain the same program:
# containerd.io of Docker contains runc, and apt would remove it to install the package runc.
NODE = {
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "iproute2": "ip",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "util-linux": "nsenter",
}
CONTROL_PLANE = {package: NODE[package] for package in ("iproute2", "util-linux")}
IMAGES = {
    "buildah": "buildah",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "debootstrap": "debootstrap",
    "netavark": "/usr/lib/podman/netavark",  # newer releases of buildah do not start without it
    "skopeo": "skopeo",
}
_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "--no-remove")


def environment() -> dict[str, str]:
    """Return our environment with the folders of system programs on PATH.

    The PATH of users often lacks these folders.
    """
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


def missing(packages: dict[str, str]) -> list[str]:
    """Return the `packages` (name -> one of its programs or files) that are not installed."""
    path = environment()["PATH"]
    return [name for name, file in packages.items() if not shutil.which(file, mode=os.F_OK, path=path)]


def require(packages: dict[str, str]) -> None:
    """Install the missing `packages` as root with apt.

    Raises LocalClusterError with the command to run if we are not root, if apt fails, or if apt would remove an
    installed package.
    """
    names = missing(packages)
    if not names:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise LocalClusterError(
            f"The local cluster needs {', '.join(names)}. Run `sudo {' '.join([*_INSTALL, *names])}` (on other "
            "distributions, install the equivalent packages)."
        )
    _apt("apt-get", "update")
    upgraded_names = simulate_installation(names)
    upgrades = f" (with upgrades of {', '.join(upgraded_names)})" if upgraded_names else ""
    with step(f"Installing {', '.join(names)}{upgrades}"):
        _apt(*_INSTALL, *names)


def simulate_installation(names: list[str]) -> list[str]:
    """Return the installed packages that the installation of `names` would upgrade, because `names` need it.

    Raises LocalClusterError if the installation would remove an installed package.
    """
    simulation = _apt("apt-get", "install", "--simulate", "--no-install-recommends", *names)
    if removed_names := re.findall(r"^(?:Purg|Remv) (\S+) ", simulation, re.MULTILINE):
        raise LocalClusterError(
            f"The installation of {', '.join(names)} would remove {', '.join(sorted(removed_names))}, so nothing was "
            "installed. Install kind and start Docker or Podman, which needs no packages, set KUBECONFIG, or use "
            "another machine."
        )
    # apt prints the old version in brackets after the name of an installed package that it would upgrade.
    return sorted(re.findall(r"^Inst (\S+) \[", simulation, re.MULTILINE))


def unpack(package: str, folder: Path) -> None:
    """Write the files of `package` into `folder` without installing the package."""
    with tempfile.TemporaryDirectory() as download_folder:
        _apt("apt-get", "update")
        _apt("apt-get", "download", package, folder=download_folder)
        for archive in Path(download_folder).glob("*.deb"):
            _apt("dpkg-deb", "--extract", str(archive), str(folder))


def _apt(*command: str, folder: str | None = None) -> str:
    """Run a command of apt in `folder` and return its output."""
    variables = {**environment(), "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if process.returncode:
        last_lines = (process.stderr.strip() or process.stdout.strip()).splitlines()[-1:]
        raise LocalClusterError(f"`{' '.join(command)}` failed: {' '.join(last_lines)}")
    return process.stdout
