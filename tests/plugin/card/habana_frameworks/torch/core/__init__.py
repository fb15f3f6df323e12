"""Lazy execution: nothing is deferred here, so a step has no end."""

from typing import Any


def mark_step(*_: Any, **__: Any) -> None:
    """Nothing."""
