"""All imports of vLLM in the runtime's process, with the module paths of the supported releases (versions.py).

Modules are imported only when needed, because the imports take about ten seconds. Do not import them on the event loop.
"""

import asyncio
import io
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, redirect_stderr
from functools import wraps
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema
from starlette.types import ASGIApp

from gaudi_runtime.engines.vllm.grammars import check_grammar
from gaudi_runtime.engines.vllm.moved_modules import installed_layout
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.http.openai_api.media import restrict_formats

if TYPE_CHECKING:
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor.multiproc_executor import MultiprocExecutor


HTTP_METRICS = "PrometheusInstrumentatorMiddleware"
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
    """Import the modules of vLLM's OpenAI application, and bound the images and grammars of requests."""
    # Import the server before warm-up. The import takes seconds and would otherwise delay the first answer after
    # warm-up.
    layout = installed_layout()
    stop_at_first_error()
    import_module(layout.state)
    import_module(layout.app)
    restrict_formats()
    bound_grammars()


def bound_grammars() -> None:
    """Make vLLM check the bounds of grammars.py first, and build no grammar on the event loop."""
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1.structured_output import backend_outlines, backend_xgrammar

    check_fields, build = StructuredOutputsParams.__post_init__, backend_xgrammar.validate_xgrammar_grammar
    build_outlines = backend_outlines.validate_structured_output_request_outlines

    def check_fields_and_bounds(params: "StructuredOutputsParams") -> None:
        check_fields(params)  # type: ignore[no-untyped-call]
        check_grammar(params)

    def build_in_thread(sampling_params: "SamplingParams") -> None:
        # While vLLM parses a request, it builds structural tags on the event loop. `check_in_thread` builds them later.
        if asyncio._get_running_loop() is None:
            build(sampling_params)

    def refuse_schemas(params: "SamplingParams") -> None:
        # vLLM falls back to outlines for `patternProperties`. Its expression doubles with each level of arrays: 1.7 KB
        # of schema end the process.
        if params.structured_outputs and params.structured_outputs.json:
            raise ValueError("The JSON schema has features that this server does not support. Avoid patternProperties.")
        build_outlines(params)

    setattr(StructuredOutputsParams, "__post_init__", check_fields_and_bounds)  # noqa: B010 - mypy forbids assignments
    backend_xgrammar.validate_xgrammar_grammar = build_in_thread
    backend_outlines.validate_structured_output_request_outlines = refuse_schemas


def check_in_thread(engine: Any) -> None:
    """Make vLLM's AsyncLLM build the grammar of a request, to check it, in one thread and not on the event loop."""
    generate, processor = engine.generate, engine.input_processor
    thread = ThreadPoolExecutor(1, "grammar-check")

    def verify(params: Any) -> None:
        configs = (processor.model_config, processor.speculative_config, processor.structured_outputs_config)
        params.verify(*configs, processor.tokenizer)
        params.verify = lambda *_: None  # otherwise `generate` would do it again

    async def verify_and_generate(prompt: Any, params: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await asyncio.get_running_loop().run_in_executor(thread, verify, params)
        async for output in generate(prompt, params, *args, **kwargs):
            yield output

    def generate_checked(prompt: Any, sampling_params: Any, *args: Any, **kwargs: Any) -> Any:
        has_grammar = getattr(sampling_params, "structured_outputs", None) is not None
        return (verify_and_generate if has_grammar else generate)(prompt, sampling_params, *args, **kwargs)

    engine.generate = generate_checked


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

    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs.from_cli_args(arguments), usage_context=UsageContext.OPENAI_API_SERVER
    )
    check_in_thread(engine)
    return engine


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


def build_app(arguments: Namespace, tasks: Sequence[str], model_config: Any) -> Any:
    """Build vLLM's OpenAI application without the middleware that measures HTTP requests."""
    app = import_module(installed_layout().app).build_app(arguments, tasks, model_config)
    # For each request, the middleware searches all routes for the label of metrics that the status port does not show.
    app.user_middleware = [each for each in app.user_middleware if each.cls.__name__ != HTTP_METRICS]
    app.middleware_stack = app.build_middleware_stack()
    return app


@asynccontextmanager
async def openai_application(arguments: Namespace, engine: "AsyncLLM") -> AsyncIterator[ASGIApp]:
    """Import vLLM's OpenAI application and run it with `engine` during the application's lifespan."""
    layout = installed_layout()
    tasks = await engine.get_supported_tasks()
    app = build_app(arguments, tasks, engine.model_config)
    await import_module(layout.state).init_app_state(engine, app.state, arguments, tasks)
    # vLLM sets `should_exit` on this object after its engine has died. Nothing here reads the attribute, because
    # watch.py detects the death.
    app.state.server = SimpleNamespace(should_exit=False)
    async with app.router.lifespan_context(app):
        yield app
