"""A replica that receives SIGTERM during its imports."""

import signal
import subprocess
import sys
from pathlib import Path

from localcluster.sandbox.processes import wait_until


def _takes_sigterm(pid: int) -> bool:
    """Return whether the process has its own handler for SIGTERM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def test_sigterm_before_the_loop_runs_stops_the_process_cleanly() -> None:
    with subprocess.Popen([sys.executable, "-m", "gaudi_operator", "run"], stderr=subprocess.PIPE) as process:
        wait_until(lambda: _takes_sigterm(process.pid), "the handler of SIGTERM", 20)
        process.terminate()
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0, errors.decode()
