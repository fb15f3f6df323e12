"""Debian packages: real apt on a machine that is described by a few files, without network."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError
from localcluster.programs import debian

APT = """\
APT::Architecture "amd64";
APT::Sandbox::User "root";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc "{folder}";
"""
# Docker CE, as its packages describe themselves, and a library that is older than in the archive.
INSTALLED = """\
Package: containerd.io
Version: 1.7.27-1
Provides: containerd, runc
Conflicts: containerd, runc
Replaces: containerd, runc

Package: docker-ce
Version: 5:28.1.1-1
Depends: containerd.io (>= 1.7.27)

Package: libseccomp2
Version: 2.5.4-1
"""
AVAILABLE = """\
Package: runc
Version: 1.1.5-1

Package: conntrack
Version: 1.4.7-1

Package: skopeo
Version: 1.18-1
Depends: libseccomp2 (>= 2.6)

Package: libseccomp2
Version: 2.6.0-1
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine's package files, which apt uses instead of those of this machine."""
    if not shutil.which("apt-get"):
        pytest.skip("apt is not installed")
    for folder in ("archive", "cache", "state/lists/partial", "apt.conf.d", "preferences.d", "sources.list.d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "config").write_text(APT.format(folder=tmp_path))
    (tmp_path / "status").write_text(paragraphs(INSTALLED, "Status: install ok installed"))
    (tmp_path / "archive" / "Packages").write_text(paragraphs(AVAILABLE, "Filename: ./none.deb\nSize: 1"))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "config"))
    return tmp_path


def paragraphs(packages: str, line: str) -> str:
    """Return the packages with the fields that all packages have."""
    return packages.replace("\nVersion:", f"\nArchitecture: amd64\nMaintainer: none\n{line}\nVersion:")


@pytest.fixture
def refuse_changes(machine: Path) -> Callable[[list[str]], None]:
    """The check before an installation, on a machine whose lists of packages are up to date."""
    (machine / "sources.list").write_text(f"deb [trusted=yes] file:{machine}/archive ./\n")
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    return debian.refuse_changes


def test_installation_that_would_remove_docker_is_refused(refuse_changes: Callable[[list[str]], None]) -> None:
    with pytest.raises(LocalClusterError) as refused:
        refuse_changes(["conntrack", "runc"])
    assert str(refused.value) == (
        "The installation of conntrack, runc would remove or replace containerd.io, docker-ce, so nothing was "
        "installed. Install kind and start Docker or Podman, which needs no packages, set KUBECONFIG, or use another "
        "machine."
    )


def test_installation_that_would_replace_a_library_is_refused(refuse_changes: Callable[[list[str]], None]) -> None:
    with pytest.raises(LocalClusterError, match="would remove or replace libseccomp2, so nothing"):
        refuse_changes(["skopeo"])


def test_installation_that_only_adds_packages_is_allowed(refuse_changes: Callable[[list[str]], None]) -> None:
    refuse_changes(["conntrack"])


def test_program_anywhere_on_path_counts_as_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "runc-of-docker"
    program.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.missing({"runc": program.name, "other": "no-such-program"}) == ["other"]
