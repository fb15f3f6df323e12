"""Send the most expensive bodies to vLLM's own request models, and report the cost of each body.

Run this module as a separate process with limits of CPU time and address space: python -m tests.vllm.worst_bodies
"""

import asyncio
import json
import os
import resource
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.types import ASGIApp, Message

from gaudi_runtime.engines.vllm.moved_modules import installed_layout
from gaudi_runtime.engines.vllm.vllm_imports import import_server, parse_arguments
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.body import FORMS
from gaudi_runtime.http.openai_api.guard import add_guard
from gaudi_runtime.http.openai_api.media import pixel_limit
from gaudi_runtime.http.openai_api.paths import GENERATING
from tests.unit.runtime.configs import sim_config
from tests.vllm.bodies import LISTS, bodies

CPU_SECONDS, MEMORY_BYTES = 240, 4 * 2**30
"""Limits for all bodies together, in addition to the imports. Without the bounds one body takes more."""
TASKS = ("generate", "transcription", "embed", "classify")


def application() -> FastAPI:
    """Return vLLM's application with all request models. The handlers answer without an engine."""
    import_server()
    arguments = parse_arguments(["--model=unused"])
    build_app = import_module(installed_layout().app).build_app
    made: dict[str, Any] = {}
    for task in ("embed", "classify"):  # Each of them has routes that the other lacks.
        pooling = SimpleNamespace(get_pooling_task=lambda _, task=task: task, **_POOLING)
        app: FastAPI = build_app(arguments, TASKS, pooling)
        for route in app.routes:
            made.setdefault(getattr(route, "path", ""), route)
    for path, route in made.items():
        if path in GENERATING:
            route.dependant.call = _answer
    app.router.routes[:] = list(made.values())
    return app


_POOLING = {"is_cross_encoder": True, "hf_config": SimpleNamespace(num_labels=1), "score_type": "cross-encoder"}


async def _answer(**given: Any) -> dict[str, Any]:
    """Check the grammar of the request in a thread, and compile its schema, as the engine does."""
    for request in given.values():
        if (extract := getattr(request, "extract_structured_outputs", None)) and (grammar := extract()):
            from vllm.sampling_params import SamplingParams  # after import_server

            config: Any = SimpleNamespace(is_diffusion=False, backend="auto")
            check = SamplingParams(structured_outputs=grammar)._validate_structured_outputs
            try:
                await asyncio.to_thread(check, config, config, config)
            except ValueError as error:
                raise HTTPException(400) from error
            if grammar.json:
                await asyncio.to_thread(compile_schema, grammar.json)
    return {}


def compile_schema(schema: str | dict[str, Any]) -> None:
    """Compile a schema with xgrammar's cache, as vLLM does. A schema may compile only without the cache."""
    import xgrammar

    tokens = xgrammar.TokenizerInfo([chr(code) for code in range(256)], stop_token_ids=[0])
    text = schema if isinstance(schema, str) else json.dumps(schema)
    xgrammar.GrammarCompiler(tokens, max_threads=8, cache_enabled=True).compile_json_schema(text)


def fields(annotation: Any) -> set[str]:
    """Return the field names of all models in the type of a body. The type may be a union of several models."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found = annotation.model_fields.items()
        return {name for field, info in found for name in (field, info.alias) if name is not None}
    return {name for each in get_args(annotation) for name in fields(each)}


def fields_by_path(app: FastAPI) -> dict[str, set[str]]:
    """Return the fields of the request body for each path that takes JSON."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path in GENERATING]
    return {
        route.path: {name for each in route.dependant.body_params for name in fields(each.field_info.annotation)}
        for route in routes
    }


async def send_body(app: ASGIApp, path: str, kind: bytes, body: bytes) -> int:
    """Send one request and return the status code of the answer."""
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "headers": [(b"content-type", kind), (b"host", b"pod")],
    }
    await app(scope, receive, send)
    return statuses[0]


def peak_bytes() -> int:
    """Return the peak resident memory since the last call, in bytes."""
    status = Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return int(peak) * 1024


def write(measured: dict[str, Any]) -> None:
    """Write a line of JSON. Flush the line immediately, because a limit may end the process."""
    sys.stdout.write(json.dumps(measured) + "\n")
    sys.stdout.flush()


async def measure(app: FastAPI) -> None:
    """Measure every body for every path that vLLM serves. Write a line of JSON for each body."""
    metrics = RequestMetrics(CollectorRegistry())
    guard = add_guard(app, sim_config(), metrics, lambda: False, max_pixels=pixel_limit({}))
    known = fields_by_path(app)
    for path in sorted(GENERATING):
        found = known.get(path, set())
        # If a vLLM release declares its request models differently, `fields_by_path` finds no fields. The bodies would
        # then contain only unknown fields. Report such a path as missing instead.
        if path not in known or not (path.startswith(FORMS) or found & {*LISTS}):
            write({"path": path, "missing": True})
            continue
        for name, kind, body in bodies(path, found):
            peak_bytes()
            before, begun = resident_bytes(), time.process_time()
            status = await send_body(guard, path, kind, body)
            took = {"seconds": time.process_time() - begun, "mib": (peak_bytes() - before) // 2**20}
            write({"path": path, "body": name, "bytes": len(body), "status": status, **took})


def resident_bytes() -> int:
    """Return the current resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    """Measure all bodies within the limits of CPU time and address space."""
    warnings.simplefilter("ignore")
    app = application()
    used = int(time.process_time()) + 1
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, used + CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    asyncio.run(measure(app))


if __name__ == "__main__":
    main()
