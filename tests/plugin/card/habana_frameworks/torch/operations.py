"""The operations on tensors of the card, and the recipes that the bridge compiles for them outside of graphs.

With torch.compile, each operation has a recipe for each combination of shapes and types. In lazy mode, all operations
between two marked steps share one recipe. Views, uninitialized tensors and copies from or to the host have no recipe.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from habana_frameworks.torch.hpu.metrics import EAGER, compile_recipe
from habana_frameworks.torch.memory import MEMORY, tensors
from habana_frameworks.torch.utils.internal import is_lazy

Operation = tuple[Hashable, ...]
_pending: list[Operation] = []
"""The operations of lazy mode since the last marked step."""
_graphs: list[list[Operation]] = []
"""The operations of each running graph, which are a part of the recipe of the graph."""
_READS = {"cpu", "numpy", "item", "tolist", "equal", "__bool__", "__int__", "__float__", "__index__"}
"""Functions for which the host waits for a result of the card."""
_UNFILLED = {"empty", "empty_like", "empty_strided", "new_empty", "tensor", "as_tensor", "from_numpy"}
"""Functions that allocate memory of the card and compute nothing on the card."""


def follow(function: Any, args: Sequence[Any], named: dict[str, Any], results: Any, *, to_card: bool) -> Any:
    """Record a call, and return its results on the device where a real call would return them.

    `to_card` is True if the call names the card as the device of its results.
    """
    name = getattr(function, "__name__", str(function))
    given = tensors((args, named))
    on_card = [MEMORY.holds(each) for each in given]
    if to_card:
        is_upload = bool(given) and not any(on_card)
        results = _copy(results, given) if is_upload else results
        for each in tensors(results):
            MEMORY.put(each)
        if is_upload:
            return results
    elif not any(on_card):
        return results
    elif not _graphs and _is_read(name, args, on_card):
        mark_step()
        return results if name == "copy_" else _copy(results, given)
    if name == "copy_" and on_card[1:] != [True]:
        return results  # A copy from the host.
    _record(name, given, tensors(results), writes=_writes(name, named))
    return results


def _is_read(name: str, args: Sequence[Any], on_card: list[bool]) -> bool:
    """Return True if the call copies a tensor of the card to the host."""
    return name in _READS or (name == "to" and "cpu" in map(str, args[1:2])) or (name == "copy_" and not on_card[0])


def _copy(results: Any, given: list[torch.Tensor]) -> Any:
    """Return a copy of a result that shares memory with an input, because the devices do not share memory."""
    if isinstance(results, torch.Tensor) and _storage(results) in map(_storage, given):
        return results.clone()
    return results


def _writes(name: str, named: dict[str, Any]) -> bool:
    """Return True if the function writes to an input, by PyTorch's convention for names."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name.startswith(("__i", "__set")) or named.get("out") is not None


def _record(name: str, given: list[torch.Tensor], made: list[torch.Tensor], *, writes: bool) -> None:
    for each in made:
        MEMORY.mark(each)
    is_view = {_storage(each) for each in made} <= {_storage(each) for each in given}
    if name in _UNFILLED or (is_view and not writes):
        return
    operation = (name, *((tuple(each.shape), each.dtype) for each in (*given, *made)))
    if _graphs:
        _graphs[-1].append(operation)
    elif is_lazy():
        _pending.append(operation)
    else:
        compile_recipe(operation, EAGER, 1)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def mark_step() -> None:
    """Compile the pending operations of lazy mode as one recipe."""
    if _pending and not _graphs:
        compile_recipe(tuple(_pending), EAGER, len(_pending))
        _pending.clear()


@contextmanager
def inside_graph() -> Iterator[list[Operation]]:
    """Yield a list that receives the operations of the block, which are a part of one graph."""
    mark_step()
    operations: list[Operation] = []
    _graphs.append(operations)
    try:
        yield operations
    finally:
        _graphs.pop()
