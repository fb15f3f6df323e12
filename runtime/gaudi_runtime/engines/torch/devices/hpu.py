"""HPU: Intel Gaudi through habana_frameworks, which comes with Intel's image and is imported only here."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from gaudi_runtime.contract.config import EngineConfig, ExecutionMode
from gaudi_runtime.engines.protocol import DeviceMemory
from gaudi_runtime.engines.torch.devices import dynamo
from gaudi_runtime.engines.torch.devices.interface import Step
from gaudi_runtime.errors import DeviceUnavailable

COMPILE_BACKEND = "hpu_backend"


class HpuDevice:
    """One Gaudi card.

    hpuGraphs needs PT_HPU_LAZY_MODE=1 and torchCompile PT_HPU_LAZY_MODE=0, both set before this process starts.
    """

    def __init__(self, config: EngineConfig) -> None:
        try:
            self._bridge: Any = import_module("habana_frameworks.torch")
            self._metrics: Any = import_module("habana_frameworks.torch.hpu.metrics")
        except ImportError as error:
            raise DeviceUnavailable(
                "engine.device is hpu, but habana_frameworks cannot be imported: use the runtime-hpu image"
            ) from error
        if not self._bridge.hpu.is_available():
            raise DeviceUnavailable("engine.device is hpu, but no Gaudi card is visible: request habana.ai/gaudi")
        self.torch_device = torch.device("hpu")
        self._mode = config.execution_mode

    def memory(self) -> DeviceMemory:
        """What the driver says."""
        self.synchronize()
        free, total = self._bridge.hpu.mem_get_info()
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
        self._bridge.hpu.reset_peak_memory_stats()
        held = self._bridge.hpu.memory_allocated()
        step()
        self.synchronize()
        peak = self._bridge.hpu.max_memory_allocated() - held
        return DeviceMemory(free=before.free - peak, total=before.total)

    def specialize(self, forward: Callable[..., None], name: str) -> Callable[..., None]:
        """Compiled in torch.compile mode; lazy mode compiles a recipe for each new shape by itself."""
        if self._mode is ExecutionMode.TORCH_COMPILE:
            return dynamo.specialize(forward, name, COMPILE_BACKEND)
        return forward

    def capture(self, step: Step) -> Step:
        """An HPU graph of the step; in torch.compile mode the compiled step itself."""
        step()
        self.synchronize()
        if self._mode is ExecutionMode.TORCH_COMPILE:
            return step
        graph, stream = self._bridge.hpu.HPUGraph(), self._bridge.hpu.Stream()
        with self._bridge.hpu.stream(stream):
            graph.capture_begin()
            step()
            graph.capture_end()
        self.synchronize()

        def replay() -> None:
            graph.replay()

        return replay

    def is_out_of_memory(self, error: Exception) -> bool:
        """The bridge raises plain RuntimeErrors; their text is all there is to judge by."""
        return isinstance(error, RuntimeError) and "memory" in str(error).lower()

    def compiles(self) -> int:
        """Recipes that the graph compiler has made in this process."""
        statistics = dict(self._metrics.metric_global("graph_compilation").stats())
        return int(statistics["TotalNumber"])

    def synchronize(self) -> None:
        """Wait for the card."""
        self._bridge.hpu.synchronize()
