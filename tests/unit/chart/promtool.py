"""Prometheus' promtool from Debian's package, unpacked but not installed, so that no service is started."""

import os
import shutil
import subprocess
from pathlib import Path

from localcluster.cache import ensure_cached
from localcluster.errors import LocalClusterError
from localcluster.progress import step

PACKAGE = "prometheus"


def promtool() -> Path:
    """Return the path of the installed promtool, or of the promtool from Debian's package.

    Raises LocalClusterError if neither is available.
    """
    own = shutil.which("promtool")
    return Path(own) if own else ensure_cached("promtool-debian", _unpack) / "usr" / "bin" / "promtool"


def _unpack(folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise LocalClusterError(
            "Tests of the alerts need promtool, a part of Prometheus: install it and put it on PATH."
        )
    with step("Downloading promtool"):
        download = ["apt-get", "download", PACKAGE]
        if _run(download, folder) and os.geteuid() == 0:
            _run(["apt-get", "update"], folder)
        if failed := _run(download, folder):
            raise LocalClusterError(
                f"`apt-get download {PACKAGE}` failed ({failed}): run `apt-get update` as root, or put promtool on"
                " PATH."
            )
        (package,) = folder.glob("*.deb")
        if failed := _run(["dpkg-deb", "--extract", package.name, "."], folder):
            raise LocalClusterError(f"{package.name} could not be unpacked: {failed}")
        package.unlink()


def _run(command: list[str], folder: Path) -> str:
    """Run a command. Return the last line of its error output if the command failed, else an empty string."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else ""
