"""The devices of the torch engine, CPU and HPU: memory, compilation and graphs.

Both devices run the same steps over fixed buffers. A CPU counts memory against a budget, and its graphs are Dynamo's
fixed-shape callables. A card reports its own memory and records graphs.
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
"""A forward over fixed buffers, at the same addresses each time."""
Forward = Callable[..., None]

RECOMPILES_BEFORE_GIVING_UP = 64


class Device(ABC):
    """The interface of a device, the part of the torch engine that depends on it."""

    torch_device: torch.device

    @abstractmethod
    def memory(self) -> DeviceMemory:
        """Return the bytes of device memory now."""

    @abstractmethod
    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Run the largest forward and return the memory that it leaves free."""

    @abstractmethod
    def specialize(self, forward: Forward, name: str) -> Forward:
        """Return the forward compiled for the one shape of its calls, or the forward itself."""

    @abstractmethod
    def capture(self, step: Step) -> Step:
        """Run the step, record it, and return its replay."""

    @abstractmethod
    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether this error of the device means that an allocation failed."""

    def compiles(self) -> int:
        """Return the number of graphs that this process has compiled, by Dynamo's count."""
        return counters["stats"]["unique_graphs"]

    def adapt(self, weight_bytes: int) -> None:  # noqa: B027 - most have nothing to do
        """Apply the settings that depend on the size of the model."""

    def reserve(self, nbytes: int) -> None:  # noqa: B027
        """Count an allocation before it is made. Raises DeviceOutOfMemory if the device itself would not raise it."""

    def release(self, nbytes: int) -> None:  # noqa: B027
        """Subtract an allocation that was freed."""

    def synchronize(self) -> None:  # noqa: B027 - nothing runs behind the caller's back on a CPU
        """Wait until all started work has ended."""


def open_device(config: EngineConfig) -> Device:
    """Open the torch engine's device. Raises DeviceUnavailable, or ConfigError if the CPU has no memory budget."""
    return HpuDevice(config) if config.device == "hpu" else CpuDevice(config)


def specialized(forward: Forward, name: str, backend: str) -> Forward:
    """Return `forward` as a device compiles it by `backend`: at its first call, as a whole, for its shapes."""
    # Without this, guards on anything but shapes could switch compilation off silently.
    torch._dynamo.config.recompile_limit = RECOMPILES_BEFORE_GIVING_UP
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    # Dynamo stores compiled code with a function's code object and searches the entries one by one. Each bucket has its
    # own code object with one entry, so a second entry is always a real recompile and never another bucket.
    original = cast(FunctionType, forward)
    own = FunctionType(original.__code__.replace(co_name=name), original.__globals__, name)
    return cast(Forward, torch.compile(own, backend=backend, dynamic=False, fullgraph=True))


class CpuDevice(Device):
    """The processor as a device of the torch engine, with `engine.deviceMemoryBytes` of memory."""

    def __init__(self, config: EngineConfig) -> None:
        if config.device_memory_bytes is None:
            raise ConfigError("engine.deviceMemoryBytes is missing. On a CPU it sets how much memory the model may use")
        self.torch_device = torch.device("cpu")
        self._total = config.device_memory_bytes
        self._used = 0
        self._backend = config.compile_backend.value
        self._compiled = config.execution_mode in GRAPH_MODES

    def memory(self) -> DeviceMemory:
        """Return the rest of the budget."""
        return DeviceMemory(free=self._total - self._used, total=self._total)

    def adapt(self, weight_bytes: int) -> None:
        """Use the threads that the container has and the model can use, unless OMP_NUM_THREADS sets another number."""
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(threads(weight_bytes, usable_cores()))

    def reserve(self, nbytes: int) -> None:
        """Count `nbytes`. Raises DeviceOutOfMemory if the budget has less left."""
        # Called before the allocation, because a CPU has no device memory that could run out, and the kernel would
        # kill the process.
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
        """Return the memory that the buffers of the largest forward leave free."""
        # The buffers stay reserved, because batches without a graph allocate them again.
        self.reserve(buffer_bytes)
        step()
        return self.memory()

    def specialize(self, forward: Forward, name: str) -> Forward:
        """Compile with Dynamo, unless the execution mode is eager or lazy."""
        return specialized(forward, name, self._backend) if self._compiled else forward

    def capture(self, step: Step) -> Step:
        """Run the step and return it: the compiled step on its static buffers is the graph."""
        step()
        return step

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether the machine itself has run out of memory."""
        # torch's allocator of a CPU raises a plain RuntimeError.
        return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


class HpuDevice(Device):
    """An Intel Gaudi card as a device of the torch engine.

    hpuGraphs needs PT_HPU_LAZY_MODE=1 and torchCompile PT_HPU_LAZY_MODE=0, both set before this process starts.
    """

    def __init__(self, config: EngineConfig) -> None:
        # Imported by name, because only Intel's image contains the bridge. Its import registers the device
        # "hpu" in torch.
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
        """Return free and total bytes, as the driver reports them."""
        self.synchronize()
        free, total = self._driver.mem_get_info()
        return DeviceMemory(free=free, total=total)

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Return free memory less the peak of the forward; its buffers are allocated already."""
        before = self.memory()
        self._driver.reset_peak_memory_stats()
        held = self._driver.memory_allocated()
        step()
        # The step is only queued when it returns, and its peak comes later.
        self.synchronize()
        peak = self._driver.max_memory_allocated() - held
        return DeviceMemory(free=before.free - peak, total=before.total)

    def synchronize(self) -> None:
        """Wait for the card."""
        self._driver.synchronize()

    def specialize(self, forward: Forward, name: str) -> Forward:
        """Compile in torch.compile mode; lazy mode itself compiles a recipe for each new shape."""
        return specialized(forward, name, "hpu_backend") if self._compiled else forward

    def capture(self, step: Step) -> Step:
        """Return an HPU graph of the step; in torch.compile mode the compiled step itself."""
        # The first run compiles, which a graph must not record.
        step()
        self.synchronize()
        if self._compiled:
            return step
        graph, stream = self._driver.HPUGraph(), self._driver.Stream()
        # A capture records only the work of its own stream, not of the default stream.
        with self._driver.stream(stream):
            graph.capture_begin()
            step()
            graph.capture_end()
        self.synchronize()
        replay: Step = graph.replay
        return replay

    def is_out_of_memory(self, error: Exception) -> bool:
        """Check the text of the error, because the bridge raises plain RuntimeErrors."""
        return isinstance(error, RuntimeError) and "memory" in str(error).lower()

    def compiles(self) -> int:
        """Return the number of recipes that the graph compiler has made in this process."""
        # Dynamo's count is not used, because in lazy mode the bridge makes recipes that Dynamo does not know.
        return int(dict(self._metrics.metric_global("graph_compilation").stats())["TotalNumber"])
