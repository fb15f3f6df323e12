"""Every import of vLLM that our own process makes, with the paths of the supported releases (versions.py).

Importing takes twenty seconds and none of it may happen on the event loop, so nothing here is imported before it is
asked for.

A Layout says where the releases keep what they have moved: 0.29 took the OpenAI server's modules to
entrypoints.launchers. What stayed where it was is imported by name.
"""

import io
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from starlette.types import ASGIApp

from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor


T = TypeVar("T")


def import_server() -> None:
    """Import what the OpenAI application needs, which takes seconds that nobody should wait for after warm-up."""
    layout = installed_layout()
    import_module(layout.state)
    import_module(layout.app)


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """What `vllm serve` would make of these arguments. Raises ConfigError with vLLM's own sentence."""
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    make_arg_parser = import_module(installed_layout().arguments).make_arg_parser
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parser = make_arg_parser(FlexibleArgumentParser())  # type: ignore[no-untyped-call]
            parsed: Namespace = parser.parse_args(list(arguments))
            return parsed
    except (SystemExit, ValueError) as error:
        last = (said.getvalue().strip().splitlines() or [str(error)])[-1]
        raise ConfigError(
            f"vLLM refuses its arguments: {last}; look at engine.settings and engine.extraArgs."
        ) from error


def build_engine(arguments: Namespace) -> "AsyncLLM":
    """vLLM's engine with its processes; returns when weights are loaded and the KV cache is allocated."""
    _inspect_models_here()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(
        AsyncEngineArgs.from_cli_args(arguments), usage_context=UsageContext.OPENAI_API_SERVER
    )


def build_pod_part(arguments: Namespace) -> "MultiprocExecutor":
    """The processes of vLLM in a pod without its core (`vllm serve --headless`); returns when weights are loaded."""
    _inspect_models_here()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor

    asked = AsyncEngineArgs.from_cli_args(arguments)
    return MultiprocExecutor(asked.create_engine_config(UsageContext.OPENAI_API_SERVER, headless=True))


def _call(fn: Callable[[], T]) -> T:
    return fn()


def _inspect_models_here() -> None:
    """vLLM looks at a model's class in one more interpreter, lest CUDA be opened in this one: here a start longer."""
    from vllm.model_executor.models import registry

    setattr(registry, "_run_in_subprocess", _call)  # noqa: B010 - private, and typed otherwise


@asynccontextmanager
async def openai_application(arguments: Namespace, engine: "AsyncLLM") -> AsyncIterator[ASGIApp]:
    """vLLM's own OpenAI application over `engine`, with its lifespan."""
    layout = installed_layout()
    tasks = await engine.get_supported_tasks()
    app = import_module(layout.app).build_app(arguments, tasks, engine.model_config)
    await import_module(layout.state).init_app_state(engine, app.state, arguments, tasks)
    async with app.router.lifespan_context(app):
        yield app


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
    """The layout of a vLLM; `has` says whether it has the package of this name.

    Not by version: a build from source may call itself anything. Not by the old modules: newer releases keep one.
    """
    return FROM_0_29 if has(_LAUNCHERS) else TO_0_28


def installed_layout() -> Layout:
    """The layout of the installed vLLM, of which a part is imported. Raises ImportError without one."""
    return layout_of(find_spec)
