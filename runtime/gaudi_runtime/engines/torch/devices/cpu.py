"""CPU: a memory budget kept in a ledger, and Dynamo's fixed-shape callables as graphs."""

import os
from collections.abc import Callable

import torch

from gaudi_runtime.contract.config import EngineConfig
from gaudi_runtime.engines.protocol import DeviceMemory
from gaudi_runtime.engines.threads import threads
from gaudi_runtime.engines.torch.devices import dynamo
from gaudi_runtime.engines.torch.devices.interface import GRAPH_MODES, Step
from gaudi_runtime.errors import ConfigError, DeviceOutOfMemory
from gaudi_runtime.process.cgroup import usable_cores


class CpuDevice:
    """The processor as a device with `engine.deviceMemoryBytes` of memory.

    A CPU has no memory of its own to run out of, so weights, cache and static buffers are counted against the
    budget before they are allocated.
    """

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
        """Keep room for the buffers of the largest forward: batches without a graph allocate theirs anew."""
        self.reserve(buffer_bytes)
        step()
        return self.memory()

    def specialize(self, forward: Callable[..., None], name: str) -> Callable[..., None]:
        """Compiled by Dynamo, unless the execution mode is eager or lazy."""
        return dynamo.specialize(forward, name, self._backend) if self._compiled else forward

    def capture(self, step: Step) -> Step:
        """The compiled step on its static buffers is the graph."""
        step()
        return step

    def is_out_of_memory(self, error: Exception) -> bool:
        """The machine behind the budget can run out, too: torch's allocator raises a plain RuntimeError then."""
        return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)

    def compiles(self) -> int:
        """Dynamo's count."""
        return dynamo.compiles()

    def synchronize(self) -> None:
        """Nothing runs behind the caller's back on a CPU."""
