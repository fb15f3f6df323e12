"""The device "hpu". PyTorch knows this name but has no kernels for the device, so the CPU executes the calls.

Therefore `tensor.device` reports "cpu". The plugin and vLLM use the name of the platform instead, which is "hpu".
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from habana_frameworks.torch import operations

_CPU = torch.device("cpu")


def register() -> None:
    """Activate the device for all calls of this thread. Forked processes inherit the device."""
    PlayedByCpu().__enter__()
    torch.Generator = Generator  # type: ignore[misc]
    torch.library.Library.impl = _implement_on_cpu  # type: ignore[method-assign]
    torch.distributed.Backend.register_backend("hccl", _collectives, devices=["cpu", "hpu"])


_implement = torch.library.Library.impl


def _implement_on_cpu(library: Any, name: Any, function: Any, dispatch_key: str = "", **options: Any) -> None:
    """Register the card's implementation of an operator of vLLM for the CPU, which executes it."""
    _implement(library, name, function, "CPU" if dispatch_key == "HPU" else dispatch_key, **options)


def _collectives(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return torch.distributed.ProcessGroupGloo(store, rank, size, timeout)


class Generator(torch.Generator):
    """A generator of random numbers. The CPU generates the numbers of a generator on the card."""

    def __new__(cls, device: Any = "cpu") -> "Generator":
        return super().__new__(cls, _on_cpu(device))


class PlayedByCpu(TorchFunctionMode):
    """A torch function mode that executes calls for the card on the CPU."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Do not pin host memory. On a real machine, the driver of the card pins the memory. Here PyTorch would call
        # CUDA, which is not installed.
        if "pin_memory" in kwargs:
            kwargs = {**kwargs, "pin_memory": False}
        # `torch.device("hpu")` must remain an HPU device, because vLLM compares the type of the device.
        if function is torch.device:
            return function(*args, **kwargs)
        if isinstance(kwargs.get("device"), int):
            kwargs = {**kwargs, "device": torch.device("hpu", kwargs["device"])}  # a number names a card
        run = partial(_ROWS[function], function) if function in _ROWS else function
        made = run(*[_on_cpu(each) for each in args], **{name: _on_cpu(each) for name, each in kwargs.items()})
        if torch.compiler.is_compiling():
            return made
        to_card = any(map(_names_card, (*args, *kwargs.values())))
        return operations.follow(function, args, kwargs, made, to_card=to_card)


def _names_card(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "hpu") or (
        isinstance(value, str) and (value == "hpu" or value.startswith("hpu:"))
    )


def _on_cpu(value: Any) -> Any:
    return _CPU if _names_card(value) else value


# Convert negative indices. The plugin pads indices with -1. A card counts negative indices from the end, as Python
# does, but CPU kernels reject negative indices.
def _from_end(index: torch.Tensor, rows: int) -> torch.Tensor:
    return index % rows if index.numel() else index


def _by_rows(function: Any, source: torch.Tensor, dim: int, index: torch.Tensor, *rest: Any, **options: Any) -> Any:
    return function(source, dim, _from_end(index, source.size(dim)), *rest, **options)


def _embedding(function: Any, index: torch.Tensor, weight: torch.Tensor, *rest: Any, **options: Any) -> Any:
    return function(_from_end(index, weight.size(0)), weight, *rest, **options)


def _one_hot(function: Any, index: torch.Tensor, num_classes: int = -1) -> Any:
    """Return one-hot rows. The row of a negative class contains only zeros."""
    known = (index >= 0).unsqueeze(-1)
    return function(index.clamp(min=0).long(), num_classes) * known


def _matmul(function: Any, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor | None = None) -> Any:
    """Convert the inputs to the precision of the output and multiply.

    CPU kernels reject an output of higher precision.
    """
    if out is None:
        return function(left, right)
    return function(left.to(out.dtype), right.to(out.dtype), out=out)


_ROWS: dict[Any, Callable[..., Any]] = {
    torch.matmul: _matmul,
    torch.index_select: _by_rows,
    torch.Tensor.index_select: _by_rows,
    torch.Tensor.index_copy_: _by_rows,
    torch.Tensor.index_add_: _by_rows,
    torch.Tensor.index_reduce_: _by_rows,
    F.embedding: _embedding,
    F.one_hot: _one_hot,
}
