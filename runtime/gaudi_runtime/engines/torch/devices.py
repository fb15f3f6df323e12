"""The devices of the torch engine, CPU and HPU: memory, compilation and graphs.

Both devices run the same steps over fixed buffers. A CPU keeps a memory budget in a ledger, and its graphs are Dynamo's
fixed-shape callables; a card reports its own memory and records graphs.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any, cast

import torch
import torch._dynamo
from torch._dynamo.utils import counters

from gaudi_runtime.contract.config import EngineConfig, ExecutionMode
from gaudi_runtime.engine_protocol.engine import GRAPH_MODES, DeviceMemory
from gaudi_runtime.engines.host_cpu import threads
from gaudi_runtime.errors import ConfigError, DeviceOutOfMemory, DeviceUnavailable
from gaudi_runtime.process.cgroup import usable_cores

Step = Callable[[], None]
"""A forward over fixed buffers: the same addresses each time."""
Forward = Callable[..., None]

RECOMPILES_BEFORE_GIVING_UP = 64


class Device(ABC):
    """The part of the torch engine that depends on the device."""

    torch_device: torch.device

    @abstractmethod
    def memory(self) -> DeviceMemory:
        """Bytes of device memory now."""

    @abstractmethod
    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Run the largest forward and return the memory that is free beside it."""

    @abstractmethod
    def specialize(self, forward: Forward, name: str) -> Forward:
        """The forward compiled for the one shape that it will be called with, or the forward as it is."""

    @abstractmethod
    def capture(self, step: Step) -> Step:
        """Run the step, record it, and return its replay."""

    @abstractmethod
    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether this is how the device says that an allocation failed."""

    def compiles(self) -> int:
        """Graphs compiled by this process so far: Dynamo's count."""
        return counters["stats"]["unique_graphs"]

    def adapt(self, weight_bytes: int) -> None:  # noqa: B027 - most have nothing to do
        """Settle what depends on the size of the model."""

    def reserve(self, nbytes: int) -> None:  # noqa: B027
        """Count an allocation that is about to happen. Raises DeviceOutOfMemory where the device itself could not."""

    def release(self, nbytes: int) -> None:  # noqa: B027
        """Count it as gone."""

    def synchronize(self) -> None:  # noqa: B027 - nothing runs behind the caller's back on a CPU
        """Wait until everything that was started has ended."""


def open_device(config: EngineConfig) -> Device:
    """The configured device. Raises DeviceUnavailable, or ConfigError when the CPU has no memory budget."""
    return HpuDevice(config) if config.device == "hpu" else CpuDevice(config)


def specialized(forward: Forward, name: str, backend: str) -> Forward:
    """`forward` compiled by `backend` when it is first called, whole, for the shapes of that call."""
    # Guards on anything but shapes must never switch compilation off silently.
    torch._dynamo.config.recompile_limit = RECOMPILES_BEFORE_GIVING_UP
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    # Dynamo keeps what it compiled with a function's code and searches it one by one. A code object of its own gives
    # each bucket a search of length one, so a second entry is always a real recompile, never another bucket.
    original = cast(FunctionType, forward)
    own = FunctionType(original.__code__.replace(co_name=name), original.__globals__, name)
    return cast(Forward, torch.compile(own, backend=backend, dynamic=False, fullgraph=True))


class CpuDevice(Device):
    """The processor as a device with `engine.deviceMemoryBytes` of memory."""

    def __init__(self, config: EngineConfig) -> None:
        if config.device_memory_bytes is None:
            raise ConfigError("engine.deviceMemoryBytes is missing: on CPU it says how much memory the model may use")
        self.torch_device = torch.device("cpu")
        self._total = config.device_memory_bytes
        self._used = 0
        self._backend = config.compile_backend.value
        self._compiled = config.execution_mode in GRAPH_MODES

    def memory(self) -> DeviceMemory:
        """What the ledger leaves of the budget."""
        return DeviceMemory(free=self._total - self._used, total=self._total)

    def adapt(self, weight_bytes: int) -> None:
        """Use as many threads as the container may and the model is worth, unless OMP_NUM_THREADS says otherwise."""
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(threads(weight_bytes, usable_cores()))

    def reserve(self, nbytes: int) -> None:
        """Count `nbytes`. Raises DeviceOutOfMemory when the budget has less left."""
        # Before the allocation: a CPU has no memory of its own to run out of, and the kernel kills instead of refusing.
        free = self._total - self._used
        if nbytes > free:
            raise DeviceOutOfMemory(
                f"{nbytes} bytes do not fit into {free} free bytes of engine.deviceMemoryBytes {self._total}"
            )
        self._used += nbytes

    def release(self, nbytes: int) -> None:
        """Count `nbytes` as free again."""
        self._used -= nbytes

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """What is free beside the buffers of the largest forward."""
        # Never released: batches without a graph allocate their buffers again.
        self.reserve(buffer_bytes)
        step()
        return self.memory()

    def specialize(self, forward: Forward, name: str) -> Forward:
        """Compiled by Dynamo, unless the execution mode is eager or lazy."""
        return specialized(forward, name, self._backend) if self._compiled else forward

    def capture(self, step: Step) -> Step:
        """The compiled step on its static buffers is the graph."""
        step()
        return step

    def is_out_of_memory(self, error: Exception) -> bool:
        """The machine behind the budget can run out, too."""
        # torch's allocator of a CPU raises a plain RuntimeError.
        return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


class HpuDevice(Device):
    """One Intel Gaudi card.

    hpuGraphs needs PT_HPU_LAZY_MODE=1 and torchCompile PT_HPU_LAZY_MODE=0, both set before this process starts.
    """

    def __init__(self, config: EngineConfig) -> None:
        # By name, for the bridge comes only with Intel's image; importing it is what makes torch know devices "hpu".
        try:
            bridge: Any = import_module("habana_frameworks.torch")
            self._metrics: Any = import_module("habana_frameworks.torch.hpu.metrics")
        except ImportError as error:
            raise DeviceUnavailable(
                "engine.device is hpu, but habana_frameworks cannot be imported: use the runtime-hpu image"
            ) from error
        if not bridge.hpu.is_available():
            raise DeviceUnavailable("engine.device is hpu, but no Gaudi card is visible: request habana.ai/gaudi")
        self._driver: Any = bridge.hpu
        self.torch_device = torch.device("hpu")
        self._compiled = config.execution_mode is ExecutionMode.TORCH_COMPILE

    def memory(self) -> DeviceMemory:
        """Free and total bytes, as the driver reports them."""
        self.synchronize()
        free, total = self._driver.mem_get_info()
        return DeviceMemory(free=free, total=total)

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Free memory less what the forward needed at its peak; its buffers are allocated already."""
        before = self.memory()
        self._driver.reset_peak_memory_stats()
        held = self._driver.memory_allocated()
        step()
        # The step is only queued when it returns: its peak comes later.
        self.synchronize()
        peak = self._driver.max_memory_allocated() - held
        return DeviceMemory(free=before.free - peak, total=before.total)

    def synchronize(self) -> None:
        """Wait for the card."""
        self._driver.synchronize()

    def specialize(self, forward: Forward, name: str) -> Forward:
        """Compiled in torch.compile mode; lazy mode compiles a recipe for each new shape by itself."""
        return specialized(forward, name, "hpu_backend") if self._compiled else forward

    def capture(self, step: Step) -> Step:
        """An HPU graph of the step; in torch.compile mode the compiled step itself."""
        # The first run compiles, which a graph must not record.
        step()
        self.synchronize()
        if self._compiled:
            return step
        graph, stream = self._driver.HPUGraph(), self._driver.Stream()
        # A capture records only the work of its own stream, never that of the default stream.
        with self._driver.stream(stream):
            graph.capture_begin()
            step()
            graph.capture_end()
        self.synchronize()
        replay: Step = graph.replay
        return replay

    def is_out_of_memory(self, error: Exception) -> bool:
        """The bridge raises plain RuntimeErrors; their text is all there is to judge by."""
        return isinstance(error, RuntimeError) and "memory" in str(error).lower()

    def compiles(self) -> int:
        """Recipes that the graph compiler has made in this process."""
        # Not Dynamo's count: in lazy mode the bridge makes recipes that Dynamo never sees.
        return int(dict(self._metrics.metric_global("graph_compilation").stats())["TotalNumber"])
