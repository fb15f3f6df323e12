"""Process 1 of a sandbox. When this process ends, the kernel ends all processes of the sandbox.

This file runs in an interpreter without site packages, so it imports nothing from the project. Its input is a pipe from
the launcher with one JSON object per line. `{"command": [...], "log": path, "environment": {...}}` starts a process,
and the answer is the pid in the sandbox. `{"detach": true}` lets the sandbox outlive the launcher. If the launcher ends
without a detach, even by SIGKILL, the pipe is closed and the sandbox ends too.
"""

import json
import os
import signal
import sys


def reap(_signal: int, _frame: object) -> None:
    """Reap our own children and the orphans that the kernel assigns to process 1."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def spawn(command: list[str], log: str, environment: dict[str, str]) -> int:
    """Start `command` in its own session, append its output to `log`, and return its pid in the sandbox."""
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(command[0], command, environment, file_actions=files, setsid=True)


def answer(text: object) -> None:
    """Write one line to the launcher."""
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


def main() -> None:
    """Write "ready", then execute requests of the launcher until it detaches or ends."""
    signal.signal(signal.SIGCHLD, reap)
    answer("ready")
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("detach"):
            while True:
                signal.pause()
        try:
            answer(spawn(**request))
        except OSError as error:
            answer(error)


main()
