"""What is tried in a process of its own: `python -m ... torch`. Its last line of output is the answer, JSON."""

import json
import sys
from importlib import import_module, util
from typing import Any

from gaudi_runtime.engines.vllm.old_releases import installed_layout


def torch() -> dict[str, Any]:
    """Import torch, and the Gaudi bridge where there is one; the names of the cards."""
    # By name, as everything here: torch may be missing, and the runtime may import it only in its engines.
    torch = import_module("torch")
    if util.find_spec("habana_frameworks"):
        import_module("habana_frameworks.torch")
        return {"cards": [torch.hpu.get_device_name(at) for at in range(torch.hpu.device_count())]}
    return {"cards": []}


def vllm() -> dict[str, Any]:
    """Import what serving with vLLM imports, and its kernels. AttributeError when the kernels do not load."""
    for module in ("vllm.v1.engine.async_llm", installed_layout().app, "vllm.v1.worker.worker_base"):
        import_module(module)
    platform = import_module("vllm.platforms").current_platform
    platform.import_kernels()
    # Kernels that do not load are only logged by vLLM; on a CPU a look at one of them tells.
    if platform.is_cpu():
        _ = import_module("torch").ops._C.init_cpu_memory_env
    return {}


if __name__ == "__main__":
    print(json.dumps({"torch": torch, "vllm": vllm}[sys.argv[1]]()))  # noqa: T201 - the answer
