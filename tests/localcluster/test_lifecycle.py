"""The removal of a node. However the node ends, no trace of the node remains on the machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from localcluster import Node
from localcluster.cache import cache_dir
from localcluster.sandbox.processes import Identity, wait_for_end, wait_until
from tests.localcluster.traces import Traces, process_tree, state_of, traces

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "localcluster", *arguments]


def run(*arguments: str) -> str:
    done = subprocess.run(command_line(*arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a node. The node is always removed after the test."""
    name = f"test-{uuid4().hex[:8]}"
    yield name
    run("down", "--name", name)


def _sees(pid: int, file: Path) -> bool:
    """Return whether the file is visible in the mount namespace of a process or of one of its descendants."""
    return any(Path(f"/proc/{each.pid}/root{file}").exists() for each in process_tree(pid))


def assert_no_traces_left(before: Traces, left: Traces) -> None:
    assert (bool(before.links), bool(before.routes), bool(before.cgroups)) == (True, True, True)
    assert before.still_in(left) == frozenset()
    assert (left.mounts, left.iptables) == ([], before.iptables)


def test_stopped_node_leaves_no_process_mount_or_link(tmp_path: Path) -> None:
    with Node(tmp_path, "stopped") as node:
        pid, addresses = state_of(tmp_path)
        before = traces(tmp_path, addresses)
        processes = process_tree(pid)
        assert len(before.links) == 1
        assert len(processes) > 8
        assert "coredns" in node.kubectl("get", "pods", "-A")
    assert [process for process in processes if process.alive] == []
    assert_no_traces_left(before, traces(tmp_path, addresses))
    assert before.mounts == []


def test_killed_launcher_leaves_no_process_mount_or_link(tmp_path: Path) -> None:
    script = "from pathlib import Path; from localcluster import Node; import sys\n"
    script += "with Node(Path(sys.argv[1]), 'killed'): print('up', flush=True); input()\n"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout
        assert launcher.stdout.readline() == "up\n"
        pid, addresses = state_of(tmp_path)
        processes = process_tree(pid)
        before = traces(tmp_path, addresses)
        os.kill(launcher.pid, signal.SIGKILL)
    wait_until(lambda: not any(process.alive for process in processes), "the node to end", 10)
    wait_until(lambda: not before.links & traces(tmp_path, addresses).links, "its link to be removed", 10)
    left = traces(tmp_path, addresses)
    assert (left.mounts, before.routes & left.routes, left.iptables) == ([], frozenset(), before.iptables)


def test_node_outlives_the_up_command_until_down_removes_it(name: str) -> None:
    kubeconfig = Path(run("up", "--name", name))
    pid, addresses = state_of(kubeconfig.parent)
    processes = process_tree(pid)
    before = traces(kubeconfig.parent, addresses)
    assert Path(run("up", "--name", name)) == kubeconfig
    assert state_of(kubeconfig.parent) == (pid, addresses)
    assert f"{name}  node  https://{addresses.node_ip}:6443  ready" in run("status")
    run("down", "--name", name)
    assert [process for process in processes if process.alive] == []
    assert_no_traces_left(before, traces(kubeconfig.parent, addresses))
    assert name not in run("status")


def test_up_after_a_crash_starts_a_new_node(name: str) -> None:
    kubeconfig = Path(run("up", "--name", name, "--profile", "control-plane"))
    pid, _ = state_of(kubeconfig.parent)
    first = Identity.of(pid)
    first.kill()
    wait_for_end(first)  # process 1 of a namespace ends after all its other processes
    assert "crashed" in run("status")
    run("up", "--name", name)
    assert state_of(kubeconfig.parent)[0] != pid
    node = Node.find(kubeconfig.parent)
    assert node
    assert "Running" in node.kubectl("get", "pods", "-n", "kube-system")


@pytest.mark.parametrize("interruption", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_up_leaves_no_process_mount_or_link(name: str, interruption: signal.Signals) -> None:
    # Restore the default handler of SIGINT. A shell starts background jobs with SIGINT ignored, and child processes
    # inherit this setting.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run_dir = cache_dir() / "run" / name
    with subprocess.Popen(
        command_line("up", "--name", name), cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True, text=True
    ) as launcher:
        wait_until((run_dir / "log" / "kubelet.log").exists, "the start of the kubelet", 60)
        pid, addresses = state_of(run_dir)
        processes = process_tree(pid)
        before = traces(run_dir, addresses)
        os.killpg(launcher.pid, interruption)
        _, errors = launcher.communicate(timeout=30)
    assert launcher.returncode != 0
    assert "Traceback" not in errors
    assert [process for process in processes if process.alive] == []
    assert_no_traces_left(before, traces(run_dir, addresses))
    assert not (run_dir / "state.json").exists()


def test_up_without_permission_for_namespaces_is_refused(name: str) -> None:
    command = ["setpriv", "--bounding-set=-sys_admin", *command_line("up", "--name", name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "run as root, a container with `--privileged`." in done.stderr


def test_killed_build_leaves_no_process_or_mount(tmp_path: Path) -> None:
    script = "import sys; from localcluster.sandbox.sandbox import run_bound; run_bound(['sh', '-c', sys.argv[1]])"
    build = f"mount -t tmpfs build {tmp_path} && touch {tmp_path}/inside && exec sleep 3600"
    with subprocess.Popen([sys.executable, "-c", script, build], cwd=ROOT) as launcher:
        wait_until(lambda: _sees(launcher.pid, tmp_path / "inside"), "the mount of the build", 10)
        processes = process_tree(launcher.pid)
        launcher.kill()
    wait_until(lambda: not any(process.alive for process in processes), "the build to end", 10)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert list(tmp_path.iterdir()) == []


def test_failed_start_names_the_component_and_the_reason(tmp_path: Path) -> None:
    with Node(tmp_path, "first"):
        pass
    (tmp_path / "log" / "etcd.log").unlink()
    (tmp_path / "log" / "etcd.log").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from pathlib import Path; from localcluster import Node\n"
         "with Node(Path(sys.argv[1]), 'broken'): pass", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Starting" in done.stderr
    assert "etcd failed" in done.stderr
    assert not (tmp_path / "state.json").exists()
