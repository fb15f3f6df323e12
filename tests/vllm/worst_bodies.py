"""Send the worst bodies that the bounds let through to vLLM's own request models, and report what each took.

A process of its own, with limits of processor time and address space: python -m tests.vllm.worst_bodies
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

from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.types import ASGIApp, Message

from gaudi_runtime.engines.vllm.old_releases import installed_layout
from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.body import FORMS
from gaudi_runtime.http.openai_api.guard import GENERATING, guarded
from tests.unit.runtime.configs import sim_config
from tests.vllm.bodies import LISTS, bodies

CPU_SECONDS, MEMORY_BYTES = 240, 4 * 2**30
"""Of all bodies together beyond what the imports took; without the bounds one body takes more."""
TASKS = ("generate", "transcription", "embed", "classify")


def application() -> FastAPI:
    """vLLM's application with all of its request models; its handlers answer without an engine."""
    arguments = parse_arguments(["--model=unused"])
    build_app = import_module(installed_layout().app).build_app
    made: dict[str, Any] = {}
    for task in ("embed", "classify"):  # each has routes that the other has not
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


async def _answer(**_: Any) -> dict[str, Any]:
    return {}


def fields(annotation: Any) -> set[str]:
    """Return the names of all fields of the models in the type of a body, which may be a union of several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found = annotation.model_fields.items()
        return {name for field, info in found for name in (field, info.alias) if name is not None}
    return {name for each in get_args(annotation) for name in fields(each)}


def fields_by_path(app: FastAPI) -> dict[str, set[str]]:
    """The fields of the bodies of each path that takes JSON."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path in GENERATING]
    return {
        route.path: {name for each in route.dependant.body_params for name in fields(each.field_info.annotation)}
        for route in routes
    }


async def answer(app: ASGIApp, path: str, kind: bytes, body: bytes) -> int:
    """The status of one request."""
    told: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.append(message["status"])

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
    return told[0]


def peak_bytes() -> int:
    """The most resident memory since it was last asked for."""
    status = Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return int(peak) * 1024


def write(measured: dict[str, Any]) -> None:
    """A line of JSON, at once: a limit ends the process."""
    sys.stdout.write(json.dumps(measured) + "\n")
    sys.stdout.flush()


async def measure(app: FastAPI) -> None:
    """Write a line of JSON for each path that vLLM serves and each body."""
    guard = guarded(app, sim_config(), RequestMetrics(CollectorRegistry()), lambda: False)
    known = fields_by_path(app)
    for path in sorted(GENERATING):
        found = known.get(path, set())
        # A release whose models are typed in another way would otherwise get bodies of unknown fields only.
        if path not in known or not (path.startswith(FORMS) or found & {*LISTS}):
            write({"path": path, "missing": True})
            continue
        for name, kind, body in bodies(path, found):
            peak_bytes()
            before, begun = resident_bytes(), time.process_time()
            status = await answer(guard, path, kind, body)
            took = {"seconds": time.process_time() - begun, "mib": (peak_bytes() - before) // 2**20}
            write({"path": path, "body": name, "bytes": len(body), "status": status, **took})


def resident_bytes() -> int:
    """The memory of this process that is resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    """Measure within the limits."""
    warnings.simplefilter("ignore")
    app = application()
    used = int(time.process_time()) + 1
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, used + CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    asyncio.run(measure(app))


if __name__ == "__main__":
    main()
