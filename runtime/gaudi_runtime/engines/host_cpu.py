"""The processor of this machine: which code is compiled for it, and how many of its threads a model is worth."""

import hashlib
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BYTES_PER_THREAD = 32 * 1024**2
_FLAGS = ("flags", "Features")
"""How x86 and Arm call their lists of instructions."""


def host_cpu() -> str:
    """Name and instructions of this machine's processor, as far as the kernel tells."""
    try:
        text = CPUINFO.read_text()
    except OSError:
        text = ""
    return cpu_of(text, platform.machine())


def cpu_of(cpuinfo: str, machine: str) -> str:
    """Architecture, model and a digest of the instructions of the first processor in the text of /proc/cpuinfo."""
    first = cpuinfo.split("\n\n")[0].splitlines()
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
    # Compilers use every instruction that the machine has: code for another digest may hold some that this one lacks.
    flags = next((said[name] for name in _FLAGS if name in said), "")
    digest = hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()[:8]
    return f"{machine} {said.get('model name', 'of unknown model')} {digest}"


def threads(weight_bytes: int, cores: int) -> int:
    """Threads for a model, from 1 to `cores`."""
    # A decode step streams the weights once. In a small model the threads would mostly wait for each other, and where
    # cores are shared a thread that waits for one without a core costs far more than it saves.
    return min(cores, 1 + weight_bytes // BYTES_PER_THREAD)
