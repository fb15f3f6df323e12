"""All imports of vLLM in the runtime's process, with the module paths of the supported releases (versions.py).

Modules are imported only when needed, because the imports take twenty seconds. Do not import them on the event loop.
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

from gaudi_runtime.engines.vllm.moved_modules import installed_layout
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor


CONTAINERS = ("list_schema", "tuple_schema", "set_schema", "frozenset_schema", "dict_schema")
"""The functions of pydantic_core.core_schema that describe containers of any number of values."""


def stop_at_first_error() -> None:
    """Make vLLM's pydantic models stop at the first wrong value of a list, set, tuple or dict.

    Call this function before vLLM's models are imported. By default, the models report every wrong value once for each
    type that it could have. A request with 20,000 values caused a million errors and used gigabytes, on the event loop.
    """
    for name in CONTAINERS:
        describe = getattr(core_schema, name)
        if not hasattr(describe, "__wrapped__"):
            setattr(core_schema, name, _make_fail_fast(describe))


def _make_fail_fast(describe: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(describe)
    def describe_fail_fast(*args: Any, **kwargs: Any) -> Any:
        # Some releases of pydantic do not support `fail_fast` for dicts. These releases ignore the entry.
        return {"fail_fast": True, **describe(*args, **kwargs)}

    return describe_fail_fast


def import_server() -> None:
    """Import the modules of vLLM's OpenAI application."""
    # Import the server before warm-up. The import takes seconds and would otherwise delay the first answer after
    # warm-up.
    layout = installed_layout()
    stop_at_first_error()
    import_module(layout.state)
    import_module(layout.app)


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """Import vLLM's parser and parse these arguments. Raises ConfigError with vLLM's error message."""
    stop_at_first_error()
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    make_arg_parser = import_module(installed_layout().arguments).make_arg_parser
    output = io.StringIO()
    try:
        with redirect_stderr(output):
            parser = make_arg_parser(FlexibleArgumentParser())  # type: ignore[no-untyped-call]
            parsed: Namespace = parser.parse_args(list(arguments))
            return parsed
    except (SystemExit, ValueError) as error:
        # argparse prints an error and calls `sys.exit`, which would end the start-up thread without a reported reason.
        line = (output.getvalue().strip().splitlines() or [str(error)])[-1]
        raise ConfigError(f"vLLM refuses its arguments: {line}. Check engine.settings and engine.extraArgs.") from error


def build_engine(arguments: Namespace) -> "AsyncLLM":
    """Import vLLM and start its engine. Return when the weights are loaded and the KV cache is allocated."""
    _inspect_models_in_process()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(
        AsyncEngineArgs.from_cli_args(arguments), usage_context=UsageContext.OPENAI_API_SERVER
    )


def build_pod_part(arguments: Namespace) -> "MultiprocExecutor":
    """Start vLLM's processes in a pod without a core (`vllm serve --headless`) and wait until weights are loaded."""
    _inspect_models_in_process()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor

    engine_args = AsyncEngineArgs.from_cli_args(arguments)
    return MultiprocExecutor(engine_args.create_engine_config(UsageContext.OPENAI_API_SERVER, headless=True))


def _inspect_models_in_process() -> None:
    """Make vLLM inspect a model's class in this interpreter."""
    from vllm.model_executor.models import registry

    # By default, vLLM inspects the class in a second interpreter, so that this one does not initialize CUDA. Without
    # CUDA, the second interpreter only costs time.
    setattr(registry, "_run_in_subprocess", lambda fn: fn())  # noqa: B010 - private, and typed otherwise


@asynccontextmanager
async def openai_application(arguments: Namespace, engine: "AsyncLLM") -> AsyncIterator[ASGIApp]:
    """Import vLLM's OpenAI application and run it with `engine` during the application's lifespan."""
    layout = installed_layout()
    tasks = await engine.get_supported_tasks()
    app = import_module(layout.app).build_app(arguments, tasks, engine.model_config)
    await import_module(layout.state).init_app_state(engine, app.state, arguments, tasks)
    # vLLM sets `should_exit` on this object after its engine has died. Nothing here reads the attribute, because
    # watch.py detects the death.
    app.state.server = SimpleNamespace(should_exit=False)
    async with app.router.lifespan_context(app):
        yield app
