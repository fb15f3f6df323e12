"""Run tests repeatedly on a busy machine: `python -m tests.steady tests/cluster/test_crash_loops.py`.

Each run is a separate pytest process, so its cluster is only seconds old. During a run, both cores and the disk are
busy, and the processes of the run are paused one after the other. The program prints the result of every run, and the
output of failed runs. The logs of failed runs are kept in build/steady.
"""

import contextlib
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from rich.console import Console

RUNS = int(os.environ.get("GAUDI_STEADY_RUNS", "20"))
SEED = int(os.environ.get("GAUDI_STEADY_SEED", str(time.time_ns() % 1_000_000)))
BUSY = int(os.environ.get("GAUDI_STEADY_BUSY", str(os.cpu_count() or 1)))
SPARED = os.environ.get("GAUDI_STEADY_SPARED", "")
"""Part of the command line of processes that a test itself pauses. Resuming them would break the test."""
FOLDER = Path("build") / "steady"
BLOCK_BYTES = 4 << 20
FROZEN_SECONDS = (0.2, 2.0)
THAWED_SECONDS = (1.0, 5.0)

console = Console(highlight=False, soft_wrap=True)


def main(tests: list[str]) -> int:
    """Run the tests, and return the number of failed runs."""
    console.print(f"{RUNS} runs under load of {' '.join(tests)}; GAUDI_STEADY_SEED={SEED} freezes alike")
    chance = random.Random(SEED)  # noqa: S311 - the same times in every run with this seed
    failed = 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    with busy_machine():
        for number in range(1, RUNS + 1):
            started = time.monotonic()
            code, output = run(number, tests, chance)
            failed += bool(code)
            outcome = f"[red]failed ({code})[/]" if code else "[green]passed[/]"
            console.print(f"run {number:2} of {RUNS}: {outcome} in {time.monotonic() - started:.0f} s")
            if code:
                console.print(output, markup=False)
    console.print(f"{RUNS - failed} of {RUNS} runs passed")
    return failed


def run(number: int, tests: list[str], chance: random.Random) -> tuple[int, str]:
    """Return the exit code and the output of one run, whose processes are paused one after the other.

    The logs of a failed run are kept.
    """
    with tempfile.TemporaryFile("w+") as output:
        logs = FOLDER / f"{os.getpid()}-{number}"
        command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={logs}", *tests]
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as pytest:
            while pytest.poll() is None:
                freeze_one(psutil.Process(pytest.pid), chance)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pytest.wait(chance.uniform(*THAWED_SECONDS))
        output.seek(0)
        if not pytest.returncode:
            shutil.rmtree(logs, ignore_errors=True)
        return pytest.returncode, output.read()


def freeze_one(root: psutil.Process, chance: random.Random) -> None:
    """Pause one process below `root` for a moment, as on an overloaded machine."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = sorted(root.children(recursive=True), key=lambda each: each.pid)
        below = [each for each in below if not SPARED or SPARED not in " ".join(each.cmdline())]
        if not below:
            return
        frozen = chance.choice(below)
        frozen.suspend()
        try:
            time.sleep(chance.uniform(*FROZEN_SECONDS))
        finally:
            frozen.resume()


@contextlib.contextmanager
def busy_machine() -> Iterator[None]:
    """Keep both cores and the disk busy during the block."""
    work = [*(multiprocessing.Process(target=_compute, daemon=True) for _ in range(BUSY))]
    work.append(multiprocessing.Process(target=_write, daemon=True))
    for each in work:
        each.start()
    try:
        yield
    finally:
        for each in work:
            each.kill()


def _compute() -> None:
    while True:
        sum(range(1_000_000))


def _write() -> None:
    with tempfile.TemporaryFile() as file:
        while True:
            file.seek(0)
            file.write(os.urandom(BLOCK_BYTES))
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
