"""Which processor code is compiled for: compilers use every instruction that the machine has."""

import hashlib
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_FLAGS = ("flags", "Features")
"""How x86 and Arm call their lists of instructions."""


def host_cpu() -> str:
    """Name and instructions of this machine's processor, as far as the kernel tells."""
    try:
        told = CPUINFO.read_text()
    except OSError:
        told = ""
    return cpu_of(told, platform.machine())


def cpu_of(cpuinfo: str, machine: str) -> str:
    """Architecture, model and a digest of the instructions of the first processor in the text of /proc/cpuinfo.

    Code that was compiled for one of another digest may hold instructions that this one does not know.
    """
    first = cpuinfo.split("\n\n")[0].splitlines()
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
    flags = next((said[name] for name in _FLAGS if name in said), "")
    digest = hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()[:8]
    return f"{machine} {said.get('model name', 'of unknown model')} {digest}"
