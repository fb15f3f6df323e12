"""Modules that vLLM has moved between supported releases, and their places in the older ones.

0.29 moved the OpenAI server's modules to entrypoints.launchers. Modules that did not move are imported directly
(vllm_imports.py). Delete this module when no release before 0.29 is supported any more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

_LAUNCHERS = "vllm.entrypoints.launchers"


@dataclass(frozen=True)
class Layout:
    """The modules that vLLM has moved: those of `make_arg_parser`, `build_app` and `init_app_state`."""

    arguments: str
    app: str
    state: str


TO_0_28 = Layout(
    arguments="vllm.entrypoints.openai.cli_args",
    app="vllm.entrypoints.openai.api_server",
    state="vllm.entrypoints.openai.api_server",
)
FROM_0_29 = Layout(
    arguments=f"{_LAUNCHERS}.cli_args", app=f"{_LAUNCHERS}.app", state=f"{_LAUNCHERS}.api_server.app_state"
)


def layout_of(has: Callable[[str], object]) -> Layout:
    """Return where a vLLM has its moved modules. `has` returns whether vLLM has the package of this name."""
    # A build from source may have any version, and newer releases keep one of the old modules, so neither is checked.
    return FROM_0_29 if has(_LAUNCHERS) else TO_0_28


def installed_layout() -> Layout:
    """Return where the installed vLLM has its moved modules; imports a part. Raises ImportError if vLLM is missing."""
    return layout_of(find_spec)
