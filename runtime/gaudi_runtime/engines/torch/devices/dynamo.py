"""Dynamo as a compiler of fixed shapes."""

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import torch
import torch._dynamo
from torch._dynamo.utils import counters

RECOMPILES_BEFORE_GIVING_UP = 64


def specialize(forward: Callable[..., None], name: str, backend: str) -> Callable[..., None]:
    """`forward` compiled by `backend` when it is first called, whole, for the shapes of that call.

    Dynamo keeps what it compiled with a function's code and searches it one by one. A code object of its own gives
    each bucket a search of length one, so a second entry is always a real recompile, never another bucket.
    """
    # Guards on anything but shapes must never switch compilation off silently.
    torch._dynamo.config.recompile_limit = RECOMPILES_BEFORE_GIVING_UP
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    original = cast(FunctionType, forward)
    own = FunctionType(original.__code__.replace(co_name=name), original.__globals__, name)
    compiled: Any = torch.compile(own, backend=backend, dynamic=False, fullgraph=True)
    return cast(Callable[..., None], compiled)


def compiles() -> int:
    """Graphs that Dynamo has compiled in this process."""
    return counters["stats"]["unique_graphs"]
