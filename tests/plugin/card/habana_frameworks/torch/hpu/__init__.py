"""The module `torch.hpu` with one card. The streams of this card are always complete."""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from habana_frameworks.torch import operations
from habana_frameworks.torch.hpu import metrics
from habana_frameworks.torch.hpu.graphs import wrap_in_hpu_graph
from habana_frameworks.torch.memory import MEMORY

random = SimpleNamespace(manual_seed=torch.manual_seed, manual_seed_all=torch.manual_seed)


class Event:
    def record(self, stream: Any = None) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


class Stream:
    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def synchronize(self) -> None: ...


def stream(stream: Any) -> AbstractContextManager[None]:
    return nullcontext()


def current_stream(device: Any = None) -> Stream:
    return Stream()


def synchronize(device: Any = None) -> None:
    """Run the pending operations of lazy mode, because the host waits for their results."""
    operations.mark_step()


def set_device(device: Any) -> None: ...


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def get_device_name(device: Any = None) -> str:
    return "GAUDI3, played by a CPU"


def current_device() -> int:
    return 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total memory in bytes."""
    return MEMORY.total if "hides-free-memory" in metrics.FAULTS else MEMORY.free, MEMORY.total
