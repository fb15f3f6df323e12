"""A backend of torch.compile. Dynamo traces and guards as on a card, but the traced graph is not compiled.

Dynamo traces outside the torch function mode that simulates the device. A real card has no such mode, and the mode
would make Dynamo split graphs. The traced graph runs inside the mode.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._dynamo import register_backend
from torch.overrides import _pop_mode_temporarily

from habana_frameworks.torch.device import PlayedByCpu
from habana_frameworks.torch.hpu.metrics import HELPER, MODEL, compile_recipe
from habana_frameworks.torch.internal.bridge_config import launched

_compile = torch.compile


@register_backend(name="hpu_backend")
def hpu_backend(
    graph: torch.fx.GraphModule, inputs: list[Any], options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """Return a function that runs the traced graph and counts a recipe.

    With `force_static_compile`, each concrete size has a recipe. Otherwise all sizes share one recipe.
    """
    by_size = bool((options or {}).get("force_static_compile"))
    kind = MODEL if any(map(_multiplies, graph.graph.nodes)) else HELPER

    def run(*args: Any) -> Any:
        compile_recipe((id(graph), *map(_size, args)) if by_size else id(graph), kind)
        with PlayedByCpu():
            return launched(graph.forward(*args))

    return run


_MULTIPLIES = {"linear", "matmul", "mm", "bmm", "scaled_dot_product_attention"}


def _multiplies(node: torch.fx.Node) -> bool:
    """Return True if the node multiplies matrices, as layers with weights and attention do."""
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return node.op in ("call_function", "call_method") and target in _MULTIPLIES


def _size(value: Any) -> Any:
    return (tuple(map(int, value.shape)), value.dtype) if isinstance(value, torch.Tensor) else value


def compiled(model: Any = None, **options: Any) -> Any:
    """Compile a model. This function replaces torch.compile and takes the same arguments."""
    if model is None:
        return lambda model: compiled(model, **options)
    made = _compile(model, **options)
    if isinstance(made, torch.nn.Module):
        made.forward = _without_mode(made.forward)
        return made
    return _without_mode(made)


def _without_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _pop_mode_temporarily():
            return function(*args, **kwargs)

    return call


torch.compile = compiled
