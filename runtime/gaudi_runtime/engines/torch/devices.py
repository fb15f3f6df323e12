"""The devices of the torch engine, CPU and HPU: memory, compilation and graphs.

Both devices run the same steps on fixed buffers. The CPU device counts memory against a budget, and its graphs are
fixed-shape functions that Dynamo compiled. The HPU device reads the card's memory and records graphs.
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
from gaudi_runtime.engines.host_cpu import thread_count
from gaudi_runtime.errors import ConfigError, DeviceOutOfMemory, DeviceUnavailable
from gaudi_runtime.process.cgroup import usable_cores

Step = Callable[[], None]
"""A forward over fixed buffers, at the same addresses each time."""
Forward = Callable[..., None]

RECOMPILES_BEFORE_GIVING_UP = 64


class Device(ABC):
    """The interface between the torch engine and a device."""

    torch_device: torch.device

    @abstractmethod
    def memory(self) -> DeviceMemory:
        """Return the current device memory in bytes."""

    @abstractmethod
    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Run the largest forward and return the memory that is left free during this forward."""

    @abstractmethod
    def specialize(self, forward: Forward, name: str) -> Forward:
        """Return the forward, compiled for one shape if the execution mode compiles."""

    @abstractmethod
    def capture(self, step: Step) -> Step:
        """Run the step, record it as a graph, and return the function that replays the graph."""

    @abstractmethod
    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether this error means that the device is out of memory."""

    def compile_count(self) -> int:
        """Return the number of graphs that Dynamo has compiled in this process."""
        return counters["stats"]["unique_graphs"]

    def adapt_to_model(self, weight_bytes: int) -> None:  # noqa: B027 - most have nothing to do
        """Apply the settings that depend on the size of the model."""

    def reserve(self, nbytes: int) -> None:  # noqa: B027
        """Count an allocation before it is made. Raises DeviceOutOfMemory if a memory budget is exceeded."""

    def release(self, nbytes: int) -> None:  # noqa: B027
        """Subtract the bytes of an allocation that was freed."""

    def synchronize(self) -> None:  # noqa: B027 - nothing runs behind the caller's back on a CPU
        """Wait until all queued work has ended."""


def open_device(config: EngineConfig) -> Device:
    """Open the torch engine's device. Raises DeviceUnavailable, or ConfigError if the CPU has no memory budget."""
    return HpuDevice(config) if config.device == "hpu" else CpuDevice(config)


def compile_for_shape(forward: Forward, name: str, backend: str) -> Forward:
    """Return `forward` as a function that Dynamo compiles as a whole at its first call, for the shapes of this call."""
    # Without these settings, Dynamo could silently stop compiling if guards on other things than shapes fail.
    torch._dynamo.config.recompile_limit = RECOMPILES_BEFORE_GIVING_UP
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    # Dynamo stores compiled code in a list for each code object and searches the list entry by entry. Here each bucket
    # has its own code object with one entry. A second entry is therefore always a recompilation and never another
    # bucket.
    original = cast(FunctionType, forward)
    forward_copy = FunctionType(original.__code__.replace(co_name=name), original.__globals__, name)
    return cast(Forward, torch.compile(forward_copy, backend=backend, dynamic=False, fullgraph=True))


class CpuDevice(Device):
    """The CPU as a device of the torch engine. Its memory budget is `engine.deviceMemoryBytes`."""

    def __init__(self, config: EngineConfig) -> None:
        if config.device_memory_bytes is None:
            raise ConfigError("engine.deviceMemoryBytes is missing. Set the memory that the model may use on the CPU.")
        self.torch_device = torch.device("cpu")
        self._total = config.device_memory_bytes
        self._used = 0
        self._compiles_forwards = config.execution_mode in GRAPH_MODES

    def memory(self) -> DeviceMemory:
        """Return the free and the total bytes of the memory budget."""
        return DeviceMemory(free=self._total - self._used, total=self._total)

    def adapt_to_model(self, weight_bytes: int) -> None:
        """Set the number of threads by the container's cores and the model's size, unless OMP_NUM_THREADS is set."""
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(thread_count(weight_bytes, usable_cores()))

    def reserve(self, nbytes: int) -> None:
        """Count `nbytes` as used. Raises DeviceOutOfMemory if the budget has fewer free bytes."""
        # Reserve the memory before it is allocated. A CPU has no limited device memory, so the kernel would kill the
        # process instead of failing the allocation.
        free = self._total - self._used
        if nbytes > free:
            raise DeviceOutOfMemory(
                f"{nbytes} bytes are needed, but only {free} of the {self._total} bytes in engine.deviceMemoryBytes "
                "are free"
            )
        self._used += nbytes

    def release(self, nbytes: int) -> None:
        """Count `nbytes` as free again."""
        self._used -= nbytes

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Reserve the buffers of the largest forward, run it, and return the rest of the budget."""
        # Keep the buffers reserved after the step, because each later batch without a graph allocates such buffers.
        self.reserve(buffer_bytes)
        step()
        return self.memory()

    def specialize(self, forward: Forward, name: str) -> Forward:
        """Compile with Dynamo, unless the execution mode is eager or lazy."""
        return compile_for_shape(forward, name, "eager") if self._compiles_forwards else forward

    def capture(self, step: Step) -> Step:
        """Run the step and return it. On a CPU, the compiled step with its static buffers is the graph."""
        step()
        return step

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether an allocation failed because the machine is out of memory."""
        # torch raises a plain RuntimeError if an allocation on the CPU fails.
        return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


class HpuDevice(Device):
    """An Intel Gaudi card as a device of the torch engine.

    Execution mode hpuGraphs needs PT_HPU_LAZY_MODE=1, and torchCompile needs PT_HPU_LAZY_MODE=0. The variable must be
    set before this process starts.
    """

    def __init__(self, config: EngineConfig) -> None:
        # Import by name, because only Intel's image contains habana_frameworks. The import registers the device "hpu"
        # in torch.
        try:
            bridge: Any = import_module("habana_frameworks.torch")
            self._metrics: Any = import_module("habana_frameworks.torch.hpu.metrics")
        except ImportError as error:
            raise DeviceUnavailable(
                "engine.device is hpu, but habana_frameworks cannot be imported. Use the runtime-hpu image."
            ) from error
        if not bridge.hpu.is_available():
            raise DeviceUnavailable("engine.device is hpu, but no Gaudi card is visible. Request habana.ai/gaudi.")
        self._driver: Any = bridge.hpu
        self.torch_device = torch.device("hpu")
        self._compiles_forwards = config.execution_mode is ExecutionMode.TORCH_COMPILE

    def memory(self) -> DeviceMemory:
        """Return the free and the total bytes that the driver reports."""
        self.synchronize()
        free, total = self._driver.mem_get_info()
        return DeviceMemory(free=free, total=total)

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Return the free memory minus the peak use of the forward. The forward's buffers are already allocated."""
        memory_before = self.memory()
        self._driver.reset_peak_memory_stats()
        allocated_bytes = self._driver.memory_allocated()
        step()
        # The step is only queued when `step()` returns. Wait for the card, because the step reaches its peak memory
        # later.
        self.synchronize()
        peak_bytes = self._driver.max_memory_allocated() - allocated_bytes
        return DeviceMemory(free=memory_before.free - peak_bytes, total=memory_before.total)

    def synchronize(self) -> None:
        """Wait until the card has finished all queued work."""
        self._driver.synchronize()

    def specialize(self, forward: Forward, name: str) -> Forward:
        """Compile in torch.compile mode. In lazy mode the bridge itself compiles a recipe for each new shape."""
        return compile_for_shape(forward, name, "hpu_backend") if self._compiles_forwards else forward

    def capture(self, step: Step) -> Step:
        """Return an HPU graph of the step. In torch.compile mode, return the compiled step."""
        # Run the step once before the capture. The first run compiles the step, and a graph must not record the
        # compilation.
        step()
        self.synchronize()
        if self._compiles_forwards:
            return step
        graph, stream = self._driver.HPUGraph(), self._driver.Stream()
        # A capture records only the work of its own stream. Work of the default stream would be missing from the graph.
        with self._driver.stream(stream):
            graph.capture_begin()
            step()
            graph.capture_end()
        self.synchronize()
        replay: Step = graph.replay
        return replay

    def is_out_of_memory(self, error: Exception) -> bool:
        """Return whether the text of the error mentions memory, because the bridge raises plain RuntimeErrors."""
        return isinstance(error, RuntimeError) and "memory" in str(error).lower()

    def compile_count(self) -> int:
        """Return the number of recipes that the graph compiler has compiled in this process."""
        # Do not use Dynamo's count. In lazy mode the bridge compiles recipes, and Dynamo does not count them.
        return int(dict(self._metrics.metric_global("graph_compilation").stats())["TotalNumber"])
