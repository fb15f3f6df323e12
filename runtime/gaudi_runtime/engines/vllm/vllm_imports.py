"""Every import of vLLM that our own process makes, with the paths of the supported releases (versions.py).

Nothing here is imported before it is asked for: it takes twenty seconds, none of which may pass on the event loop.
"""

import io
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, redirect_stderr
from functools import wraps
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema
from starlette.types import ASGIApp

from gaudi_runtime.engines.vllm.old_releases import installed_layout
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor


CONTAINERS = ("list_schema", "tuple_schema", "set_schema", "frozenset_schema", "dict_schema")
"""The functions of pydantic_core.core_schema that describe containers of any number of values."""


def stop_at_first_error() -> None:
    """Let models that are defined from now on stop at the first wrong value of a container; before vLLM's are imported.

    They would report every value once for each kind that it could be: 20,000 values became a million errors and
    gigabytes, on the event loop.
    """
    for name in CONTAINERS:
        describe = getattr(core_schema, name)
        if not hasattr(describe, "__wrapped__"):
            setattr(core_schema, name, _failing_fast(describe))


def _failing_fast(describe: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(describe)
    def failing_fast(*args: Any, **kwargs: Any) -> Any:
        # Releases of pydantic whose validator of dicts does not know the entry ignore it.
        return {"fail_fast": True, **describe(*args, **kwargs)}

    return failing_fast


def import_server() -> None:
    """Import what the OpenAI application needs."""
    # Before warm-up: it takes seconds, which would lie between the last graph and the first answer.
    layout = installed_layout()
    stop_at_first_error()
    import_module(layout.state)
    import_module(layout.app)


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """What `vllm serve` would make of these arguments. Raises ConfigError with vLLM's own sentence."""
    stop_at_first_error()
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    make_arg_parser = import_module(installed_layout().arguments).make_arg_parser
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parser = make_arg_parser(FlexibleArgumentParser())  # type: ignore[no-untyped-call]
            parsed: Namespace = parser.parse_args(list(arguments))
            return parsed
    except (SystemExit, ValueError) as error:
        # argparse prints its sentence and exits, which would end the start-up thread without a reason.
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


def _inspect_models_here() -> None:
    """Look at a model's class in this interpreter."""
    from vllm.model_executor.models import registry

    # vLLM takes one more interpreter for it, lest CUDA be opened in this one: without CUDA only a longer start.
    setattr(registry, "_run_in_subprocess", lambda fn: fn())  # noqa: B010 - private, and typed otherwise


@asynccontextmanager
async def openai_application(arguments: Namespace, engine: "AsyncLLM") -> AsyncIterator[ASGIApp]:
    """vLLM's own OpenAI application over `engine`, with its lifespan."""
    layout = installed_layout()
    tasks = await engine.get_supported_tasks()
    app = import_module(layout.app).build_app(arguments, tasks, engine.model_config)
    await import_module(layout.state).init_app_state(engine, app.state, arguments, tasks)
    # What vLLM tells to exit when its engine has died, before it answers that. We see the death ourselves (watch.py).
    app.state.server = SimpleNamespace(should_exit=False)
    async with app.router.lifespan_context(app):
        yield app
