"""Lazy execution. This emulation executes each operation immediately, so marking a step has no effect."""

from typing import Any


def mark_step(*_: Any, **__: Any) -> None:
    """Do nothing."""
