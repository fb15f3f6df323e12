"""The import trials of the doctor. Each trial runs in a separate process: `python -m ... torch`.

The last line of the output is the result as JSON.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module, util
from typing import Any

from gaudi_runtime.engines.vllm.moved_modules import installed_layout

# An import takes 20 seconds on two slow cores. An import that takes longer than this limit counts as hung.
TRIAL_SECONDS = 300


def run_trial(
    command: Sequence[str], timeout_seconds: float = TRIAL_SECONDS, environment: Mapping[str, str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Run a trial in a separate process; return its error (empty on success) and its result.

    The trial is killed if it has not ended after `timeout_seconds`. Without an `environment`, it inherits the variables
    of this process.
    """
    try:
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {timeout_seconds:g} s", {}
    if process.returncode:
        return _error_line(process), {}
    # Parse only the last line, because libraries may print other lines before it.
    return "", json.loads(process.stdout.strip().splitlines()[-1])


def _error_line(process: "subprocess.CompletedProcess[str]") -> str:
    """Return the error line about a library that cannot be loaded; otherwise the last line of the output."""
    lines = [line.strip() for line in (process.stdout + process.stderr).splitlines() if line.strip()]
    import_errors = [line[line.index("Failed to import") :] for line in lines if "Failed to import" in line]
    return (import_errors or lines[-1:] or [f"exit status {process.returncode}"])[0]


def _import_torch() -> dict[str, Any]:
    """Import torch and, if installed, the Gaudi bridge. Return the names of the cards."""
    # Import by name, as everywhere in this module: torch may be missing, and only the engines of the runtime may import
    # torch directly.
    torch = import_module("torch")
    if util.find_spec("habana_frameworks"):
        import_module("habana_frameworks.torch")
        return {"cards": [torch.hpu.get_device_name(index) for index in range(torch.hpu.device_count())]}
    return {"cards": []}


def _import_vllm() -> dict[str, Any]:
    """Import vLLM's serving modules and kernels. Raises AttributeError if the kernels cannot be loaded."""
    for module in ("vllm.v1.engine.async_llm", installed_layout().app, "vllm.v1.worker.worker_base"):
        import_module(module)
    platform = import_module("vllm.platforms").current_platform
    platform.import_kernels()
    # If vLLM cannot load its CPU kernels, it only writes a log line. Accessing one kernel raises an error instead.
    if platform.is_cpu():
        _ = import_module("torch").ops._C.init_cpu_memory_env
    return {}


if __name__ == "__main__":
    print(json.dumps({"torch": _import_torch, "vllm": _import_vllm}[sys.argv[1]]()))  # noqa: T201 - the answer
