"""The Debian packages of the cluster, and their installation."""

import os
import shutil
import subprocess
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.progress import step

# Each package is detected by a file, because /usr/sbin is often not on a user's PATH.
NODE = {
    "runc": "/usr/sbin/runc",
    "iptables": "/usr/sbin/iptables",
    "conntrack": "/usr/sbin/conntrack",
    "iproute2": "/usr/sbin/ip",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "busybox-static": "/usr/share/doc/busybox-static",
    "util-linux": "/usr/bin/nsenter",
}
CONTROL_PLANE = {package: NODE[package] for package in ("iproute2", "util-linux")}
IMAGES = {
    "buildah": "/usr/bin/buildah",
    "debootstrap": "/usr/sbin/debootstrap",
    "runc": "/usr/sbin/runc",
    "skopeo": "/usr/bin/skopeo",
}


def environment() -> dict[str, str]:
    """Return our environment with the folders of system programs on PATH.

    The PATH of users often lacks these folders.
    """
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


def missing(packages: dict[str, str]) -> list[str]:
    """Return the `packages` (name -> one of its files) that are not installed."""
    return [name for name, file in packages.items() if not Path(file).exists()]


def require(packages: dict[str, str]) -> None:
    """Install the missing `packages` as root with apt.

    Raises LocalClusterError with the command to run if we are not root, or if apt fails.
    """
    names = missing(packages)
    if not names:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *names]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise LocalClusterError(
            f"The local cluster needs {', '.join(names)}. Run `sudo {' '.join(command)}` (on other distributions, "
            "install the equivalent packages)."
        )
    with step(f"Installing {', '.join(names)}"):
        _apt(["apt-get", "update"])
        _apt(command)


def _apt(command: list[str]) -> None:
    variables = {**environment(), "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if process.returncode:
        last_lines = (process.stderr.strip() or process.stdout.strip()).splitlines()[-1:]
        raise LocalClusterError(f"`{' '.join(command)}` failed: {' '.join(last_lines)}")
