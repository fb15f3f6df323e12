"""Changes of the machine (packages, cgroups, build settings), and the error messages if they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from localcluster import cluster
from localcluster.__main__ import app
from localcluster.cluster import GivenCluster
from localcluster.images.build_settings import add_settings
from localcluster.programs import debian
from localcluster.programs.prepare import PROGRAMS
from localcluster.sandbox import cgroups

ROOT = Path(__file__).parents[3]


def test_only_packages_without_their_file_are_missing() -> None:
    assert debian.missing({"python": sys.executable, "unknown": "/no/such/file"}) == ["unknown"]


def test_user_without_permission_gets_the_command_to_run() -> None:
    script = (
        "import os; from localcluster.programs import debian\n"
        "os.geteuid() or os.setuid(65534)\n"
        "try: debian.require({'runc': 'no-such-program'})\n"
        "except debian.LocalClusterError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == (
        "The local cluster needs runc. Run `sudo apt-get install -y --no-install-recommends --no-remove runc` (on "
        "other distributions, install the equivalent packages).\n"
    )


def test_error_is_printed_with_its_brackets() -> None:
    command = [sys.executable, "-m", "localcluster", "kubeconfig", "--name", "[/name]"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No node named [/name] is running." in done.stdout + done.stderr


def make_cgroup_v1(root: Path) -> None:
    for name in ("cpuset", "memory"):
        (root / name).mkdir()
        (root / name / "cgroup.procs").touch()
    (root / "cpuset" / "cpuset.cpus").write_text("0-1")
    (root / "cpuset" / "cpuset.mems").write_text("0")


def make_cgroup_v2(root: Path) -> None:
    (root / "cgroup.controllers").write_text("cpu memory")
    (root / "cgroup.subtree_control").touch()
    (root / "cgroup.procs").touch()


def test_cgroup_v1_is_created_in_every_hierarchy_with_all_cpus(tmp_path: Path) -> None:
    make_cgroup_v1(tmp_path)
    cgroups.prepare("node", tmp_path)
    assert (tmp_path / "memory" / "node").is_dir()
    assert (tmp_path / "cpuset" / "node" / "cpuset.cpus").read_text() == "0-1"


def test_cgroup_v2_is_created_once_with_delegated_controllers(tmp_path: Path) -> None:
    make_cgroup_v2(tmp_path)
    cgroups.prepare("node", tmp_path)
    assert (tmp_path / "node").is_dir()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"


def test_container_processes_are_moved_to_a_child_cgroup(tmp_path: Path) -> None:
    make_cgroup_v2(tmp_path)
    (tmp_path / "cgroup.type").write_text("domain")
    (tmp_path / "cgroup.procs").write_text("1\n")
    cgroups.prepare("node", tmp_path)
    assert (tmp_path / "init" / "cgroup.procs").read_text() == "1"


def test_cgroup_is_removed_with_its_children(tmp_path: Path) -> None:
    make_cgroup_v2(tmp_path)
    (tmp_path / "node" / "kubepods" / "pod").mkdir(parents=True)
    cgroups.remove("node", tmp_path)
    assert not (tmp_path / "node").exists()


def test_every_build_stage_gets_build_arguments_of_existing_files(tmp_path: Path) -> None:
    (tmp_path / "apt.conf").touch()
    assert add_settings("ARG A\nFROM a AS b\nRUN c\nFROM b\n", tmp_path) == (
        "ARG A\nFROM a AS b\nARG APT_CONFIG=/mnt/apt.conf\nARG UV_CACHE_DIR=/media\nRUN c\n"
        "FROM b\nARG APT_CONFIG=/mnt/apt.conf\nARG UV_CACHE_DIR=/media\n"
    )


def test_kubeconfig_variable_selects_an_existing_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somewhere/config")
    chosen = cluster("unused")
    assert isinstance(chosen, GivenCluster)
    assert chosen.kubeconfig == Path("/somewhere/config")


@pytest.mark.parametrize(("kubeconfig", "programs"), [("", ("kind", "docker")), ("/somewhere/config", ())])
def test_preparation_for_another_cluster_installs_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig: str, programs: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    for name in (*programs, "apt-get"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls-of-{name}\n')
        (tmp_path / name).chmod(0o755)
    for program in PROGRAMS:
        (tmp_path / "gaudi-operator" / program.name).mkdir(parents=True)
    result = CliRunner().invoke(app, ["prepare", "--image", "operator=localhost/gaudi-operator:dev"])
    assert result.exit_code == 0
    assert not (tmp_path / "calls-of-apt-get").exists()


def test_error_without_a_cluster_lists_the_options(tmp_path: Path) -> None:
    script = (
        "import os; from localcluster import cluster, LocalClusterError\n"
        "os.geteuid() or os.setuid(65534)\n"
        "try: cluster()\n"
        "except LocalClusterError as error: print(error)"
    )
    environment = {**os.environ, "PATH": "", "KUBECONFIG": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        "There is no cluster to use. Set KUBECONFIG, or install kind and start Docker (or Podman, "
    )
