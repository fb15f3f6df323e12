"""Names that vLLM has moved between supported releases, and their places in the older ones.

0.29 took the OpenAI server's modules to entrypoints.launchers. What stayed where it was is imported by name
(vllm_imports.py); once no release before 0.29 is driven, this module goes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

_LAUNCHERS = "vllm.entrypoints.launchers"


@dataclass(frozen=True)
class Layout:
    """The modules of `make_arg_parser`, `build_app` and `init_app_state`."""

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
    """The layout of a vLLM; `has` says whether it has the package of this name."""
    # Not by version: a build from source may call itself anything. Not by the old modules: newer releases keep one.
    return FROM_0_29 if has(_LAUNCHERS) else TO_0_28


def installed_layout() -> Layout:
    """The layout of the installed vLLM, of which a part is imported. Raises ImportError without one."""
    return layout_of(find_spec)
