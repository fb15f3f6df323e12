"""The sim engine and its OpenAI API in this process: a real uvicorn server on real sockets."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from openai import AsyncOpenAI
from prometheus_client import CollectorRegistry

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Engine
from gaudi_runtime.http.connection import ConnectionLimits
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.guard import add_guard
from gaudi_runtime.http.server import http_server
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine


@dataclass
class Served:
    """A running model port."""

    engine: Engine
    openai: AsyncOpenAI
    http: httpx.AsyncClient
    registry: CollectorRegistry
    metrics: RequestMetrics
    closing: list[bool] = field(default_factory=list)

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of one sample, or 0 if it does not exist yet."""
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def served(config: RuntimeConfig) -> AsyncIterator[Served]:
    """Warm up the engine, and serve its API during the block."""
    engine = start_engine(config, ReportBoard("0" * 64), threading.Event()).engine
    engine.start_serving()
    registry = CollectorRegistry()
    for collector in engine.collectors():
        registry.register(collector)
    closing: list[bool] = []
    metrics = RequestMetrics(registry)
    url = f"http://127.0.0.1:{config.serving.model_port}"
    async with (
        engine.application() as app,
        http_server(
            add_guard(app, config, metrics, lambda: bool(closing)),
            config.serving.model_port,
            ConnectionLimits(65536, 75, drain_seconds=5),
        ),
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as openai,
    ):
        yield Served(engine, openai, http, registry, metrics, closing)
