"""Settings of the bridge. As in the real bridge, the context manager has no finally."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from habana_frameworks.torch.memory import tensors

_COMPILE_ONLY = "PT_COMPILE_ONLY_MODE"
SETTINGS: dict[str, Any] = {_COMPILE_ONLY: False}


@contextmanager
def env_setting(name: str, value: Any) -> Iterator[None]:
    """Set a setting of the bridge for the block. Raises KeyError for an unknown setting."""
    before = SETTINGS[name]
    SETTINGS[name] = value
    yield
    SETTINGS[name] = before


def get_pt_compile_only_mode() -> bool:
    """Return True if nothing is launched now."""
    return bool(SETTINGS[_COMPILE_ONLY])


def launched(results: Any) -> Any:
    """Return the results of a graph, or zeros in compile-only mode, in which they were not computed."""
    if get_pt_compile_only_mode():
        for each in tensors(results):
            each.zero_()
    return results
