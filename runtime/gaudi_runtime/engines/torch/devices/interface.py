"""The small interface between the engine and a kind of device."""

from collections.abc import Callable
from typing import Protocol

import torch

from gaudi_runtime.contract.config import EngineConfig, ExecutionMode
from gaudi_runtime.engines.protocol import DeviceMemory

Step = Callable[[], None]
"""A forward over fixed buffers: the same addresses each time."""

GRAPH_MODES = (ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE)


class Device(Protocol):
    """What differs between CPU, CUDA and HPU."""

    torch_device: torch.device

    def memory(self) -> DeviceMemory:
        """Bytes of device memory now."""

    def adapt(self, weight_bytes: int) -> None:
        """Settle what depends on the size of the model."""

    def reserve(self, nbytes: int) -> None:
        """Count an allocation that is about to happen. Raises DeviceOutOfMemory where the device itself could not."""

    def release(self, nbytes: int) -> None:
        """Count it as gone."""

    def profile(self, step: Step, buffer_bytes: int) -> DeviceMemory:
        """Run the largest forward and return the memory that is free beside it."""

    def specialize(self, forward: Callable[..., None], name: str) -> Callable[..., None]:
        """The forward compiled for the one shape that it will be called with, or the forward as it is."""

    def capture(self, step: Step) -> Step:
        """Run the step, record it, and return its replay."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether this is how the device says that an allocation failed."""

    def compiles(self) -> int:
        """Graphs compiled by this process so far."""

    def synchronize(self) -> None:
        """Wait until everything that was started has ended."""


def open_device(config: EngineConfig) -> Device:
    """The configured device. Raises DeviceUnavailable, or ConfigError when the CPU has no memory budget."""
    if config.device == "cuda":
        from gaudi_runtime.engines.torch.devices.cuda import CudaDevice

        return CudaDevice(config)
    if config.device == "hpu":
        from gaudi_runtime.engines.torch.devices.hpu import HpuDevice

        return HpuDevice(config)
    from gaudi_runtime.engines.torch.devices.cpu import CpuDevice

    return CpuDevice(config)
