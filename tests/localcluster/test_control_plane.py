"""A control plane in its own network namespace.

Each test runs in a separate process, because a process cannot leave the namespace.
"""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from localcluster.sandbox.addresses import SLOTS, Addresses
from localcluster.sandbox.network import ip
from localcluster.sandbox.processes import Identity, wait_until

pytestmark = pytest.mark.timeout(120)
ROOT = Path(__file__).parents[2]
STARTED = "up"


def script(run_dir: Path, body: str) -> list[str]:
    head = f"""
    from pathlib import Path
    from localcluster import ControlPlane, enter_network_namespace
    enter_network_namespace()
    folder = Path({str(run_dir)!r})
    """
    return [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(body)]


def run(run_dir: Path, body: str) -> str:
    done = subprocess.run(script(run_dir, body), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def processes_of(run_dir: Path) -> list[int]:
    """Return the PIDs of the processes whose command line contains the run folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"={run_dir}/" in line:
                found.append(int(folder.name))
    return found


def test_control_plane_serves_its_version_and_runs_controllers(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        with ControlPlane(folder) as plane:
            print(plane.kubectl("version", "-o", "json"))
            plane.kubectl("create", "namespace", "fresh")
            plane.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "fresh", "--timeout=20s")
        """,
    )
    assert '"gitVersion": "v1.36.3"' in out


def test_two_concurrent_control_planes_are_separate(tmp_path: Path) -> None:
    body = """
    with ControlPlane(folder) as plane:
        print("up", flush=True)
        input()
        print(plane.kubectl("get", "namespace", "only-here", "--ignore-not-found"), end="")
    """
    first, second = (
        subprocess.Popen(
            script(tmp_path / name, body), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("first", "second")
    )
    for each in (first, second):
        assert each.stdout
        assert each.stdout.readline().strip() == STARTED
    assert [each.communicate("\n")[0] for each in (first, second)] == ["", ""]
    assert [each.returncode for each in (first, second)] == [0, 0]


def test_restarted_api_server_keeps_its_state(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        with ControlPlane(folder) as plane:
            plane.kubectl("create", "namespace", "kept")
            plane.restart_apiserver()
            print(plane.kubectl("get", "namespace", "kept", "-o", "name"))
        """,
    )
    assert out.strip() == "namespace/kept"


def test_pod_addresses_can_be_bound_and_connected_locally(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
        import socket
        with socket.create_server(("10.250.3.7", 8080)) as server, socket.create_connection(("10.250.3.7", 8080)):
            print(server.accept()[1][0])
        """,
    )
    assert out.strip().startswith("10.250.")


def test_control_plane_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    body = """
    with ControlPlane(folder) as plane:
        print("up", flush=True)
        input()
    """
    caller = subprocess.Popen(
        script(tmp_path, body), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert caller.stdout
    assert caller.stdout.readline().strip() == STARTED
    running = [Identity.of(pid) for pid in processes_of(tmp_path)]
    assert len(running) >= 3
    os.kill(caller.pid, signal.SIGKILL)
    caller.communicate()
    wait_until(lambda: not any(process.alive for process in running), "the control plane to end", 5)


def test_control_plane_leaves_the_network_of_the_machine_unchanged(tmp_path: Path) -> None:
    before = network()
    run(tmp_path, "with ControlPlane(folder): pass")
    assert network() == before


def network() -> list[str]:
    """Return the addresses and routes of the machine.

    Entries of nodes are omitted, because concurrent tests change them.
    """
    nodes = [Addresses(slot).link for slot in range(SLOTS)]
    lines = [*ip("-oneline", "address").splitlines(), *ip("route").splitlines()]
    return [line for line in lines if not any(link in line for link in nodes)]
