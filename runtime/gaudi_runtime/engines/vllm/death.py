"""How a process of vLLM ended, in words: vLLM itself says only that it is dead."""

from collections.abc import Mapping
from signal import Signals
from typing import Any

from gaudi_runtime.errors import EngineLost

LIKELY = {
    Signals.SIGKILL: "most often for want of memory: give the pod more",
    Signals.SIGILL: "this processor lacks an instruction that vLLM uses: try another model.dtype",
    Signals.SIGBUS: "most often for want of shared memory: raise pod.resources.sharedMemory",
}


def died(engine: Any, when: str) -> EngineLost:
    """The error for an `engine` (vLLM's AsyncLLM) that is dead; `when` says at what, such as "while it served"."""
    return EngineLost(f"A process of vLLM died {when}: {_how(_exit_codes(engine))}.")


def _exit_codes(engine: Any) -> Mapping[str, int]:
    """Exit codes of the engine's cores by name; nothing where this release keeps them elsewhere."""
    try:
        codes: Mapping[str, int] = engine.engine_core.resources.engine_manager.finished_procs()
    except AttributeError:
        return {}
    return codes


def died_here(executor: Any) -> EngineLost:
    """The error for the processes of a pod beside the leader's; `executor` is vLLM's MultiprocExecutor."""
    codes = {each.proc.name: each.proc.exitcode or 0 for each in executor.workers}
    return EngineLost(f"A process of vLLM died in this pod: {_how(codes)}.")


def _how(codes: Mapping[str, int]) -> str:
    """The first that failed: a core whose worker died ends by itself."""
    for name, code in codes.items():
        if code < 0:
            signal = Signals(-code)
            return f"{name} was ended by {signal.name}, {LIKELY.get(signal, 'and its log says more')}"
        if code > 0:
            return f"{name} ended with exit code {code}, and its log says why"
    return "its log says more"
