"""Backend of torch.compile: Dynamo traces and guards for real; the card's own compiler below it is left out.

What is compiled is traced without the mode that plays the device: on a card there is none, and Dynamo would break
graphs at it. The traced graph runs inside it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._dynamo import register_backend
from torch.overrides import _pop_mode_temporarily

from habana_frameworks.torch.device import PlayedByCpu
from habana_frameworks.torch.internal.bridge_config import launched

_compile = torch.compile


@register_backend(name="hpu_backend")
def hpu_backend(graph: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
    """The traced graph, run as it is."""

    def run(*args: Any) -> Any:
        with PlayedByCpu():
            return launched(graph.forward(*args))

    return run


def compiled(model: Any = None, **options: Any) -> Any:
    """As torch.compile, which it replaces."""
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
