"""A group of processes that the kernel ends together.

All components of a cluster are in one PID namespace. When its process 1 is killed, the kernel immediately kills the
components, their shims and their containers. A node also has its own mount and network namespaces, so its mounts,
interfaces and iptables rules end with the node and never affect the machine.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.programs.debian import environment
from localcluster.sandbox.processes import Identity, wait_for_end

_INIT = Path(__file__).with_name("init.py")


class Sandbox:
    """Namespaces, and the process that keeps them alive."""

    def __init__(self, init: Identity, *, isolated: bool, launcher: subprocess.Popen[str] | None = None) -> None:
        """Refer to an existing sandbox by its process 1. An `isolated` sandbox has its own mounts and network."""
        self.init = init
        self.isolated = isolated
        self._launcher = launcher

    @classmethod
    def create(cls, *, isolated: bool, open_files: Sequence[int] = ()) -> "Sandbox":
        """Start a sandbox. `open_files` are file descriptors (of locks) that stay open as long as the sandbox exists.

        Raises LocalClusterError if the kernel refuses the namespaces, for example without permission.
        """
        command = ["unshare", "--pid", "--fork", "--kill-child"]
        if isolated:
            command += ["--mount", "--propagation", "slave", "--net", "--mount-proc"]
        launcher = subprocess.Popen(
            [*command, sys.executable, "-I", "-S", str(_INIT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=open_files,
            start_new_session=True,
        )
        if _read_reply(launcher) != "ready":
            reason = launcher.communicate()[1].strip()
            raise LocalClusterError(
                f"The kernel refuses new namespaces ({reason}): run as root, a container with `--privileged`."
            )
        return cls(Identity.of(_child_pids(launcher.pid)[0]), isolated=isolated, launcher=launcher)

    @property
    def alive(self) -> bool:
        """Whether processes may still run in the sandbox."""
        return self.init.alive

    def spawn(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Identity:
        """Start a process in the sandbox with its output in `log`. Only the launcher can do this, before detach()."""
        reply = self._request({"command": list(command), "log": str(log), "environment": dict(environment)})
        if not reply.isdigit():
            raise LocalClusterError(f"Starting {command[0]} failed: {reply}")
        for child_pid in _child_pids(self.init.pid):
            if _pid_inside(child_pid) == reply:
                return Identity.of(child_pid)
        raise LocalClusterError(f"{command[0]} ended right after its start. Its output is in {log}.")

    def run(self, *command: str, stdin: str | None = None) -> str:
        """Run a command in the sandbox's mounts and network, and return its output."""
        argv = self.wrap_command(*command)
        process = subprocess.run(argv, env=environment(), input=stdin, capture_output=True, text=True, check=False)
        if process.returncode:
            raise LocalClusterError(f"`{' '.join(command)}` failed: {process.stderr.strip()}")
        return process.stdout

    def wrap_command(self, *command: str) -> list[str]:
        """Return the command line that runs `command` in the sandbox's mounts and network."""
        prefix = ["nsenter", f"--target={self.init.pid}", "--mount", "--net", "--"] if self.isolated else []
        return [*prefix, *command]

    def detach(self) -> None:
        """Let the sandbox outlive this process."""
        if self._launcher:
            self._send({"detach": True})
            for pipe in (self._launcher.stdin, self._launcher.stdout, self._launcher.stderr):
                if pipe:
                    pipe.close()
            self._launcher.returncode = 0  # otherwise the interpreter warns about a child that still runs
            self._launcher = None

    def kill(self) -> None:
        """Kill all processes of the sandbox and wait for their end."""
        self.init.kill()
        wait_for_end(self.init)
        if self._launcher:
            self._launcher.communicate()
            self._launcher = None

    def _request(self, request: dict[str, object]) -> str:
        self._send(request)
        assert self._launcher  # noqa: S101 - _send has checked it
        return _read_reply(self._launcher)

    def _send(self, request: dict[str, object]) -> None:
        if not self._launcher or not self._launcher.stdin:
            raise LocalClusterError("Only the process that started a sandbox can start processes in it.")
        self._launcher.stdin.write(json.dumps(request) + "\n")
        self._launcher.stdin.flush()


def run_bound(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command. Its processes and mounts end with the command, or with this process if this process ends first."""
    prefix = ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
    return subprocess.run([*prefix, *command], env=environment(), capture_output=True, text=True, check=False)


def _read_reply(launcher: subprocess.Popen[str]) -> str:
    assert launcher.stdout  # noqa: S101 - it was created with a pipe
    return launcher.stdout.readline().rstrip("\n")


def _child_pids(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _pid_inside(pid: int) -> str:
    """Return the pid of a process in its innermost PID namespace, or an empty string if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((line.split()[-1] for line in lines if line.startswith("NSpid:")), "")
