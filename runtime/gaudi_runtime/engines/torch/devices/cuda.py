"""CUDA: the card's own memory, and CUDA graphs that share one memory pool."""

from collections.abc import Callable

import torch

from gaudi_runtime.contract.config import EngineConfig, ExecutionMode
from gaudi_runtime.engines.protocol import DeviceMemory
from gaudi_runtime.engines.torch.devices import dynamo
from gaudi_runtime.engines.torch.devices.interface import Step
from gaudi_runtime.errors import DeviceUnavailable

WARM_RUNS = 2  # libraries choose kernels and workspaces in the first runs, which a graph must not record


class CudaDevice:
    """The first visible NVIDIA card."""

    def __init__(self, config: EngineConfig) -> None:
        if not torch.cuda.is_available():
            raise DeviceUnavailable("engine.device is cuda, but torch sees no NVIDIA card: check driver and resources")
        self.torch_device = torch.device("cuda", torch.cuda.current_device())
        self._pool = torch.cuda.graph_pool_handle()
        self._compiled = config.execution_mode is ExecutionMode.TORCH_COMPILE
        self._backend = config.compile_backend.value

    def memory(self) -> DeviceMemory:
        """What the driver says, after torch has given back what it only kept for later."""
        self.synchronize()
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(self.torch_device)
        return DeviceMemory(free=free, total=total)

    def adapt(self, weight_bytes: int) -> None:
        """A card needs nothing."""

    def reserve(self, nbytes: int) -> None:
        """The card counts for itself."""

    def release(self, nbytes: int) -> None:
        """The card counts for itself."""

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Free memory less what the forward needed at its peak; its buffers are allocated already."""
        before = self.memory()
        torch.cuda.reset_peak_memory_stats(self.torch_device)
        held = torch.cuda.memory_allocated(self.torch_device)
        step()
        self.synchronize()
        peak = torch.cuda.max_memory_allocated(self.torch_device) - held
        return DeviceMemory(free=before.free - peak, total=before.total)

    def specialize(self, forward: Callable[..., None], name: str) -> Callable[..., None]:
        """Compiled by Dynamo in torch.compile mode; otherwise the graph alone makes it fast."""
        return dynamo.specialize(forward, name, self._backend) if self._compiled else forward

    def capture(self, step: Step) -> Step:
        """A CUDA graph of the step."""
        graph = torch.cuda.CUDAGraph()
        self._warm(step)
        with torch.cuda.graph(graph, pool=self._pool):
            step()
        return graph.replay

    def _warm(self, step: Step) -> None:
        """Capture runs on a stream of its own; so must the runs before it."""
        stream = torch.cuda.Stream(self.torch_device)
        stream.wait_stream(torch.cuda.current_stream(self.torch_device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_RUNS):
                step()
        torch.cuda.current_stream(self.torch_device).wait_stream(stream)

    def is_out_of_memory(self, error: Exception) -> bool:
        """torch has an exception for it."""
        return isinstance(error, torch.cuda.OutOfMemoryError)

    def compiles(self) -> int:
        """Dynamo's count; CUDA graphs alone compile nothing."""
        return dynamo.compiles()

    def synchronize(self) -> None:
        """Wait for the card."""
        torch.cuda.synchronize(self.torch_device)
