"""A backend of torch.compile. Dynamo traces and guards as on a card, but the traced graph is not compiled.

Dynamo traces outside the torch function mode that simulates the device. A real card has no such mode, and the mode
would make Dynamo split graphs. The traced graph and functions that are excluded from tracing run inside the mode.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._dynamo import register_backend
from torch.overrides import _pop_mode_temporarily

from habana_frameworks.torch.device import PlayedByCpu
from habana_frameworks.torch.hpu.metrics import GRAPH, compile_recipe
from habana_frameworks.torch.internal.bridge_config import launched
from habana_frameworks.torch.operations import inside_graph

_compile, _disable = torch.compile, torch.compiler.disable
_traced: list[None] = []
"""An entry for each running compiled function, in which the mode is not active."""


@register_backend(name="hpu_backend")
def hpu_backend(
    graph: torch.fx.GraphModule, inputs: list[Any], options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """Return a function that runs the traced graph and counts a recipe.

    With `force_static_compile`, each concrete size has a recipe. Otherwise all sizes share one recipe.
    """
    by_size = bool((options or {}).get("force_static_compile"))
    nodes = sum(node.op in ("call_function", "call_method", "call_module") for node in graph.graph.nodes)

    def run(*args: Any) -> Any:
        compile_recipe((id(graph), *map(_size, args)) if by_size else id(graph), GRAPH, nodes)
        with PlayedByCpu(), inside_graph():
            return launched(graph.forward(*args))

    return run


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
            _traced.append(None)
            try:
                return function(*args, **kwargs)
            finally:
                _traced.pop()

    return call


def disabled(function: Any = None, *args: Any, **options: Any) -> Any:
    """Exclude a function from tracing. This function replaces torch.compiler.disable and takes the same arguments."""
    if not callable(function) or isinstance(function, (type, torch.nn.Module)):
        made = _disable(function, *args, **options)
        return made if function is not None else lambda function: disabled(function, *args, **options)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if not _traced:
            return function(*given, **named)
        with PlayedByCpu():
            return function(*given, **named)

    return _disable(call, *args, **options)


torch.compile, torch.compiler.disable = compiled, disabled
