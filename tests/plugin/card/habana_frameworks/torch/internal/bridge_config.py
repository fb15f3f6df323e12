"""Settings of the bridge. Like the real context manager, `env_setting` does not restore a setting after an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from habana_frameworks.torch.memory import MEMORY, tensors

_COMPILE_ONLY = "PT_COMPILE_ONLY_MODE"
SETTINGS: dict[str, Any] = {_COMPILE_ONLY: False}


@contextmanager
def env_setting(name: str, value: Any) -> Iterator[None]:
    """Change a setting of the bridge during the block. Raises KeyError for an unknown setting."""
    before = SETTINGS[name]
    SETTINGS[name] = value
    yield
    SETTINGS[name] = before


def get_pt_compile_only_mode() -> bool:
    """Return True if compile-only mode is on. In this mode, graphs are not launched."""
    return bool(SETTINGS[_COMPILE_ONLY])


def launched(results: Any) -> Any:
    """Return the results of a graph, or zeros in compile-only mode, because graphs do not run in this mode."""
    found = tensors(results)
    for each in found:
        MEMORY.mark(each)
    if get_pt_compile_only_mode():
        for each in found:
            each.zero_()
    else:
        MEMORY.launch(found)
    return results
