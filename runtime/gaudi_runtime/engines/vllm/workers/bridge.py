"""The bridge: the functions of the Gaudi software on one card: memory, synchronization and compile-only mode."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gaudi_runtime.engines.vllm.workers.compile_times import Compiles, CompileTotals, watch_dynamo
from gaudi_runtime.errors import DeviceUnavailable

_COMPILE_ONLY = "PT_COMPILE_ONLY_MODE"
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Bridge:
    """The functions of the Gaudi software on one card.

    `memory` returns (free, total) in bytes. `mark_step` ends a sequence of operations that share a recipe in lazy mode.
    `compile_only` is None if the software has no such mode. `compiled` returns the compiles of the bridge and of Dynamo
    in this process; it is None if the bridge has no metric of its compiles.
    """

    memory: Callable[[], tuple[int, int]]
    synchronize: Callable[[], None]
    mark_step: Callable[[], None]
    is_lazy: Callable[[], bool]
    compile_only: Callable[[], AbstractContextManager[Any]] | None
    compiled: Compiles | None


def open_bridge(load: Callable[[str], Any] = import_module) -> Bridge:
    """Return the functions of the Gaudi software. `load` imports a module by name. Raises DeviceUnavailable."""
    try:
        torch = load("torch")
        return Bridge(
            memory=torch.hpu.mem_get_info,
            synchronize=torch.hpu.synchronize,
            mark_step=load("habana_frameworks.torch.core").mark_step,
            is_lazy=load("habana_frameworks.torch.utils.internal").is_lazy,
            compile_only=_find_compile_only_mode(load),
            compiled=_find_compile_metric(load),
        )
    except (ImportError, AttributeError) as error:
        raise DeviceUnavailable(f"The Gaudi software is incomplete ({error}): use the runtime-hpu image.") from error


def _find_compile_only_mode(load: Callable[[str], Any]) -> Callable[[], AbstractContextManager[Any]] | None:
    try:
        # Enter the setting once as a test. It raises KeyError if the bridge does not support compile-only mode.
        setting = load("habana_frameworks.torch.internal.bridge_config").env_setting
        with setting(_COMPILE_ONLY, True):
            pass
    except (ImportError, AttributeError, KeyError):
        return None
    return lambda: _exit_without_error(setting(_COMPILE_ONLY, True))


def _find_compile_metric(load: Callable[[str], Any]) -> Compiles | None:
    try:
        # The metric counts only the compilations after the import of this module.
        metric = load("habana_frameworks.torch.hpu.metrics").metric_global("graph_compilation")
        _read_metric(metric)
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        return None
    dynamo = watch_dynamo(load)
    return lambda: _read_metric(metric) + dynamo()


def _read_metric(metric: Any) -> CompileTotals:
    figures = dict(metric.stats())
    return CompileTotals(int(figures["TotalNumber"]), float(figures["TotalTime"]) / MICROSECONDS)


@contextmanager
def _exit_without_error(mode: AbstractContextManager[Any]) -> Iterator[None]:
    mode.__enter__()
    try:
        yield
    finally:
        # Call `__exit__` without the error, because the bridge's context has no `finally`. With the error it would stay
        # in compile-only mode, in which nothing is computed and every answer is wrong.
        mode.__exit__(None, None, None)
