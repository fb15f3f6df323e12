"""The modules that vLLM has moved between supported releases, and their places in older releases.

Release 0.29 moved the modules of the OpenAI server to entrypoints.launchers. Modules that did not move are imported
directly (vllm_imports.py). Delete this module when all supported releases are 0.29 or later.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

_LAUNCHERS = "vllm.entrypoints.launchers"


@dataclass(frozen=True)
class Layout:
    """The paths of the moved modules: the modules of `make_arg_parser`, `build_app` and `init_app_state`."""

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


def choose_layout(has: Callable[[str], object]) -> Layout:
    """Return the paths of the moved modules. `has` returns whether vLLM has the package of this name."""
    # Check for the package, because a version number or the old modules are not reliable: a source build may have any
    # version, and newer releases keep one of the old modules.
    return FROM_0_29 if has(_LAUNCHERS) else TO_0_28


def installed_layout() -> Layout:
    """Return the paths of the moved modules in the installed vLLM. Raises ImportError if vLLM is missing.

    The lookup imports a part of vLLM.
    """
    return choose_layout(find_spec)
