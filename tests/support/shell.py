"""A shell that runs the commands of the manual, one block after the other."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.documented import ROOT, SUBSTITUTIONS, blocks

OUTPUT = 4000


def make_clone(folder: Path) -> Path:
    """Copy the files of this checkout that git does not ignore. Link the virtual environment of the checkout."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def search_path(*folders: Path) -> str:
    """Return a PATH with `folders` first and without the virtual environment of the tests."""
    system = [each for each in os.environ["PATH"].split(os.pathsep) if each != str(Path(sys.executable).parent)]
    return os.pathsep.join([*map(str, folders), *system])


def free_port() -> int:
    """Return a port of 127.0.0.1 that no program uses."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


class Shell:
    """A bash process that runs the blocks of the manual. Later blocks can use variables and jobs of earlier blocks.

    The shell and its background jobs end with the `with` block.
    """

    def __init__(self, clone: Path, environment: Mapping[str, str]) -> None:
        """Start bash in `clone`. Add `environment` to the environment of this process."""
        self.times: list[tuple[str, float]] = []
        self._number = 0
        self._port = free_port()
        self._clone = clone
        self._process = subprocess.Popen(
            ["bash"],
            cwd=clone,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        """Return the shell."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the shell and its background jobs."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, name: str) -> str:
        """Run a block of the manual and return its output. Fail if a command of the block fails."""
        commands = blocks()[name]
        for each in SUBSTITUTIONS:
            commands = each.apply(commands, self._port)
        started = time.monotonic()
        output = self.execute(commands, name)
        self.times.append((name, time.monotonic() - started))
        return output

    def run_all(self, names: Sequence[str]) -> dict[str, str]:
        """Run blocks in order and return their outputs by name."""
        return {name: self.run(name) for name in names}

    def execute(self, commands: str, name: str) -> str:
        """Run commands and return their output. If a command fails, the error contains `name` and the output."""
        self._number += 1
        stem = f".block-{self._process.pid}-{self._number}"
        script, output = self._clone / f"{stem}.sh", self._clone / f"{stem}.out"
        script.write_text(f"set -eo pipefail\n{commands}")
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f". ./{script.name} < /dev/null > {output.name} 2>&1; echo done\n")
        self._process.stdin.flush()
        ended = self._process.stdout.readline()
        printed = output.read_text()
        assert ended == "done\n", f"A command of {name} failed:\n{commands}\nIts output:\n{printed[-OUTPUT:]}"
        return printed


def table_of_times(times: Sequence[tuple[str, float]]) -> str:
    """Return one line per block, with the duration in seconds and the name of the block."""
    return "\n".join(f"{seconds:7.1f} s  {name}" for name, seconds in times)
