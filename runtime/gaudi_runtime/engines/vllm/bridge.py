"""What the Gaudi software itself offers beside vLLM's plugin: memory figures, synchronization, compile-only mode."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gaudi_runtime.errors import DeviceUnavailable

_COMPILE_ONLY = "PT_COMPILE_ONLY_MODE"


@dataclass(frozen=True)
class Bridge:
    """One card. `memory` answers (free, total) in bytes; `compile_only` is None where the software has no such mode."""

    memory: Callable[[], tuple[int, int]]
    synchronize: Callable[[], None]
    is_lazy: Callable[[], bool]
    compile_only: Callable[[], AbstractContextManager[Any]] | None


def open_bridge(load: Callable[[str], Any] = import_module) -> Bridge:
    """The Gaudi software of this process; `load` imports a module by name. Raises DeviceUnavailable."""
    try:
        hpu = load("torch").hpu
        is_lazy = load("habana_frameworks.torch.utils.internal").is_lazy
        return Bridge(hpu.mem_get_info, hpu.synchronize, is_lazy, _compile_only(load))
    except (ImportError, AttributeError) as error:
        raise DeviceUnavailable(f"The Gaudi software is not whole ({error}): use the runtime-hpu image.") from error


def _compile_only(load: Callable[[str], Any]) -> Callable[[], AbstractContextManager[Any]] | None:
    """Tried once: the setting raises KeyError where the bridge does not know the mode."""
    try:
        setting = load("habana_frameworks.torch.internal.bridge_config").env_setting
        with setting(_COMPILE_ONLY, True):
            pass
    except (ImportError, AttributeError, KeyError):
        return None
    return lambda: setting(_COMPILE_ONLY, True)
