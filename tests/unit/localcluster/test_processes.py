"""Detection of ended processes."""

import subprocess
import sys
from pathlib import Path

from localcluster.sandbox.processes import Identity, wait_for_end, wait_until

# The program ends its first thread while another thread continues. The kernel then reports the process as a zombie,
# although the process still runs.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_process_is_alive_after_its_first_thread_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", HEADLESS]) as process:
        identity = Identity.of(process.pid)
        wait_until(lambda: _state(process.pid) == "Z", "the first thread to end", 20)
        assert identity.alive
        identity.kill()
        wait_for_end(identity)


def test_zombie_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        identity = Identity.of(process.pid)
        wait_until(lambda: _state(process.pid) == "Z", "the process to end", 20)
        assert not identity.alive
