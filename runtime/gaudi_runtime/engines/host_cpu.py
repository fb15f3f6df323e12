"""The processor of this machine: the instructions that compiled code may use, and the best number of threads."""

import hashlib
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
BYTES_PER_THREAD = 32 * 1024**2
_FLAGS = ("flags", "Features")
"""The names of the instruction list on x86 and Arm."""


def describe_host_cpu() -> str:
    """Return the name and the instructions of this machine's processor, if the kernel reports them."""
    try:
        text = CPUINFO.read_text()
    except OSError:
        text = ""
    return format_host_cpu(text, platform.machine())


def format_host_cpu(cpuinfo: str, architecture: str) -> str:
    """Return the architecture, the model and a digest of the instructions of the first processor in `cpuinfo`."""
    first_processor = cpuinfo.split("\n\n")[0].splitlines()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first_processor)}
    # A compiler uses all instructions of the processor. Code that was compiled for another digest may therefore contain
    # instructions that this processor lacks.
    flags = next((fields[name] for name in _FLAGS if name in fields), "")
    digest = hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()[:8]
    return f"{architecture} {fields.get('model name', 'of unknown model')} {digest}"


def host_cpu_thread_count(weight_bytes: int, cores: int) -> int:
    """Return the number of threads for a model, from 1 to `cores`."""
    # A decode step reads all weights once. In a small model, most threads would only wait for other threads. On shared
    # cores, waiting for a thread that has no core costs more time than the thread saves.
    return min(cores, 1 + weight_bytes // BYTES_PER_THREAD)
