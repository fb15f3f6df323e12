"""Debian packages: real apt on a machine that is described by a few files, without network."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError
from localcluster.images import build_settings
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
UBUNTU_SOURCES = """\
Types: deb
URIs: http://archive.ubuntu.com/ubuntu
Suites: noble noble-updates
Components: main universe
"""
DEBIAN_SOURCES = """\
Types: deb
URIs: http://mirror.example.com/debian
Suites: stable
Components: main
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
def simulate(machine: Path) -> Callable[[list[str]], list[str]]:
    """The simulation before an installation, on a machine whose lists of packages are up to date."""
    (machine / "sources.list").write_text(f"deb [trusted=yes] file:{machine}/archive ./\n")
    subprocess.run(["apt-get", "update"], check=True, capture_output=True)
    return debian.simulate_installation


def test_installation_that_would_remove_docker_is_refused(simulate: Callable[[list[str]], list[str]]) -> None:
    with pytest.raises(LocalClusterError) as refused:
        simulate(["conntrack", "runc"])
    assert str(refused.value) == (
        "The installation of conntrack, runc would remove containerd.io, docker-ce, so nothing was installed. Install "
        "kind and start Docker or Podman, which needs no packages, set KUBECONFIG, or use another machine."
    )


def test_upgrade_of_a_library_is_announced(simulate: Callable[[list[str]], list[str]]) -> None:
    assert simulate(["skopeo"]) == ["libseccomp2"]


def test_installation_that_only_adds_packages_upgrades_none(simulate: Callable[[list[str]], list[str]]) -> None:
    assert simulate(["conntrack"]) == []


def test_program_anywhere_on_path_counts_as_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "runc-of-docker"
    program.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.missing({"runc": program.name, "other": "no-such-program"}) == ["other"]


def write_sources(machine: Path, sources: str, origin: str, codename: str) -> None:
    """Write a file of sources as current installers do, and the lists that apt downloads from its first source."""
    (machine / "sources.list.d" / "os.sources").write_text(sources)
    _, url, suite, component = (line.split()[1] for line in sources.splitlines())
    lists = machine / "state" / "lists"
    name = f"{url.removeprefix('http://').replace('/', '_')}_dists_{suite}"
    (lists / f"{name}_Release").write_text(f"Origin: {origin}\nCodename: {codename}\n")
    (lists / f"{name}_{component}_binary-amd64_Packages").touch()


def test_sources_of_ubuntu_are_replaced_by_debian_sources(machine: Path) -> None:
    write_sources(machine, UBUNTU_SOURCES, "Ubuntu", "noble")
    assert build_settings.debian_sources("bookworm") == [
        "deb http://deb.debian.org/debian bookworm main",
        "deb http://deb.debian.org/debian bookworm-updates main",
        "deb http://deb.debian.org/debian-security bookworm-security main",
    ]


def test_mirror_of_a_debian_machine_is_used(machine: Path) -> None:
    write_sources(machine, DEBIAN_SOURCES, "Debian", "trixie")
    assert build_settings.debian_sources("trixie") == ["deb http://mirror.example.com/debian/ trixie main"]


def test_build_on_ubuntu_gets_a_file_of_debian_sources(machine: Path, tmp_path: Path) -> None:
    write_sources(machine, UBUNTU_SOURCES, "Ubuntu", "noble")
    settings = tmp_path / "settings"
    build_settings.write_settings(settings)
    assert " main\n" in (settings / "sources.list").read_text()
    assert 'Dir::Etc::SourceList "/mnt/sources.list";' in (settings / "apt.conf").read_text()


@pytest.mark.parametrize(
    ("codename", "suite"), [("bookworm", "bookworm"), ("trixie", "trixie"), ("noble", "bookworm"), ("", "bookworm")]
)
def test_base_image_has_the_release_of_a_debian_machine(tmp_path: Path, codename: str, suite: str) -> None:
    (tmp_path / "os-release").write_text(f"ID=any\nVERSION_CODENAME={codename}\nHOME_URL=none\n")
    assert build_settings.base_suite(tmp_path / "os-release") == suite
