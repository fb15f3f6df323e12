"""HPU graphs. As in the card's software, the inputs select the graph. A replay computes the module again."""

from collections import Counter
from functools import wraps
from typing import Any

import torch

from habana_frameworks.torch import operations
from habana_frameworks.torch.hpu.metrics import GRAPH, compile_recipe
from habana_frameworks.torch.internal.bridge_config import launched
from habana_frameworks.torch.memory import MEMORY, tensors

CAPTURES: Counter[str] = Counter()
REPLAYS: Counter[str] = Counter()
BYPASSES: Counter[str] = Counter()
"""The number of captured graphs by the class of the module."""


def wrap_in_hpu_graph(module: Any, max_graphs: int | None = None, **_: Any) -> Any:
    """Replace the forward method of a module.

    Each combination of inputs then has a graph, and each graph takes memory.
    """
    compute, name = module.forward, type(module).__name__
    kept: set[int] = set()

    @wraps(compute)
    def forward(*args: Any, bypass_hpu_graphs: bool = False, warmup_mode: bool = False, **kwargs: Any) -> Any:
        found = _key((args, kwargs))
        with operations.inside_graph() as computed:
            results = compute(*args, **kwargs)
        # Count recipes independently of graphs, because the same recipe also runs without a graph
        # (`bypass_hpu_graphs`).
        compile_recipe((id(module), found), GRAPH, len(computed))
        if bypass_hpu_graphs:
            BYPASSES[name] += 1
        elif found in kept:
            REPLAYS[name] += 1
        elif max_graphs is None or len(kept) < max_graphs:
            MEMORY.take(sum(each.nbytes for each in tensors((args, kwargs, results)) if not MEMORY.has(each)))
            kept.add(found)
            CAPTURES[name] += 1
        return launched(results)

    module.forward = forward
    module.clear_cache = kept.clear
    return module


def _key(value: Any) -> int:
    """Return a hash of the layout of a tensor, or of the value of any other object."""
    if isinstance(value, torch.Tensor):
        return hash((tuple(value.shape), value.stride(), value.storage_offset(), value.dtype))
    if isinstance(value, dict):
        return hash(tuple((name, _key(each)) for name, each in value.items()))
    if isinstance(value, (list, tuple)):
        return hash(tuple(map(_key, value)))
    return hash(value)
