"""Settings of the bridge. As in the real one, the context has no finally, and compile-only mode launches nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from habana_frameworks.torch.memory import tensors

_COMPILE_ONLY = "PT_COMPILE_ONLY_MODE"
SETTINGS: dict[str, Any] = {_COMPILE_ONLY: False}


@contextmanager
def env_setting(name: str, value: Any) -> Iterator[None]:
    """KeyError for a setting that the bridge does not know."""
    before = SETTINGS[name]
    SETTINGS[name] = value
    yield
    SETTINGS[name] = before


def get_pt_compile_only_mode() -> bool:
    """Whether nothing is launched now."""
    return bool(SETTINGS[_COMPILE_ONLY])


def launched(results: Any) -> Any:
    """The results of a graph: those of a card that was told to compile only were never computed."""
    if get_pt_compile_only_mode():
        for each in tensors(results):
            each.zero_()
    return results
