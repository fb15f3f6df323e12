"""The life of a runtime process, from reading its configuration to finishing the last answer.

serve         the event loop: status port, start, model port, drain
start_engine  the blocking start of the engine in the worker thread (start_engine.py)
read_config   reads the RuntimeConfig that the operator mounts
"""

import asyncio
import contextlib
import json
import logging
import os
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from starlette.types import ASGIApp

from gaudi_runtime.artifacts.recipe_cache.cache import RecipeCache
from gaudi_runtime.artifacts.sources.fetch import fetch_model
from gaudi_runtime.contract.config import RuntimeConfig, ServingConfig, plan_hash
from gaudi_runtime.contract.failures import PASSING_REASONS, RESTART_SECONDS
from gaudi_runtime.contract.ports import INSTANCE_HEADER
from gaudi_runtime.contract.report import NO_PLAN, Phase, RuntimeFailureReport
from gaudi_runtime.engine_protocol.engine import CanBeLost, Engine
from gaudi_runtime.engine_protocol.group import PodPart, Rank
from gaudi_runtime.engines.create_engine import create_engine, create_engine_rank
from gaudi_runtime.errors import ConfigError, EngineLost, RuntimeStartError
from gaudi_runtime.group.follow import follow_leader
from gaudi_runtime.group.peers import Make, lead_peers
from gaudi_runtime.group.topology import Topology, read_topology
from gaudi_runtime.http.certificate import Certificate
from gaudi_runtime.http.connection import ConnectionLimits, connection_limit
from gaudi_runtime.http.metrics import MetricSources, RequestMetrics, new_metrics_registry
from gaudi_runtime.http.openai_api.api_key import read_api_key
from gaudi_runtime.http.openai_api.guard import add_guard
from gaudi_runtime.http.server import http_server
from gaudi_runtime.http.status_api import STATUS_LIMITS, status_app
from gaudi_runtime.knobs.render import why_settings_cannot_render
from gaudi_runtime.process.children import end_children
from gaudi_runtime.process.exit import exit_at_once, exit_on_loss, exit_with_failure
from gaudi_runtime.process.open_files import raise_open_file_limit
from gaudi_runtime.process.signals import Signals, Stopped
from gaudi_runtime.process.worker import run_in_worker_thread
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.report.serving_counters import publish_counters
from gaudi_runtime.start_engine import StartedEngine, start_engine

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
LINGER_SECONDS = 5.0
"""The time after the drain has begun in which connections with a running answer may send a last request."""


@dataclass(frozen=True)
class _Status:
    """The state that `serve` shows on the status port."""

    board: ReportBoard
    metric_sources: MetricSources
    registry: CollectorRegistry


async def serve(config_file: Path, restart_seconds: float = RESTART_SECONDS) -> None:
    """Run the runtime process until SIGTERM. Answer probes immediately, and serve the model when it is warm.

    If the start fails, the process reports the failure until SIGTERM, or for `restart_seconds` if the failure may pass.
    """
    signals = Signals()
    raise_open_file_limit()
    try:
        config = read_config(config_file)
    except ConfigError as error:
        async with _status_server(serve_ports_of_invalid_config(config_file), NO_PLAN, signals) as status:
            await _report_failure_and_wait(error, status.board, signals, restart_seconds)
        return
    async with _status_server(config.serving, plan_hash(config.bucketing, config.limits), signals) as status:
        try:
            topology = read_topology(config.parallelism.nodes, os.environ)
            if topology.is_leader:
                await _run_leader(config, topology, status, signals)
            else:
                await _run_follower(config, topology, status, signals)
        except Stopped:
            log.info("Stopped before serving.")
        except Exception as error:  # the report must show every error
            seconds = 0 if isinstance(error, EngineLost) else restart_seconds
            failure = await _report_failure_and_wait(error, status.board, signals, seconds)
            if not signals.stop.is_set():
                exit_with_failure(failure)


@contextlib.asynccontextmanager
async def _status_server(serving: ServingConfig, plan_digest: str, signals: Signals) -> AsyncIterator[_Status]:
    """Open the status port at the start of `serve`, before slow imports. Raises PortUnavailable."""
    board = ReportBoard(plan_digest)
    metric_sources = MetricSources(board.report)
    status = _Status(board, metric_sources, new_metrics_registry(metric_sources))
    app = status_app(board, metric_sources, status.registry, serving.stall_timeout_seconds, lambda: signals.closing)
    async with http_server(app, serving.status_port, STATUS_LIMITS):
        log.info("Instance %s, status on port %d", board.report().instance, serving.status_port)
        try:
            yield status
        finally:
            board.close()


def failure_to_serve(error: Exception) -> RuntimeFailureReport:
    """Return the error for the report: a start-up error with its own reason, any other error as a crash."""
    if isinstance(error, RuntimeStartError):
        return RuntimeFailureReport(reason=error.reason, message=str(error)[:2048])
    last_line = traceback.format_exception_only(error)[-1].strip()
    return RuntimeFailureReport(reason="Crashed", message=last_line[:2048])


async def _report_failure_and_wait(
    error: Exception, board: ReportBoard, signals: Signals, restart_seconds: float
) -> RuntimeFailureReport:
    """Report the failure until SIGTERM, or for `restart_seconds` if it may pass, and return it."""
    failure = failure_to_serve(error)
    is_start_error = isinstance(error, RuntimeStartError)
    log.error(
        "This process cannot serve (%s): %s",
        failure.reason,
        failure.message,
        exc_info=None if is_start_error else error,
    )
    board.fail(failure)
    await asyncio.to_thread(end_children)  # processes that the engine has started keep their memory
    # All other failures would repeat after a restart, and the report would be lost in a crash loop.
    seconds = restart_seconds if failure.reason in PASSING_REASONS else None
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signals.stop.wait(), seconds)
    return failure


async def _run_leader(
    config: RuntimeConfig,
    topology: Topology,
    status: _Status,
    signals: Signals,
) -> None:
    """Start the engine, together with the other pods of a group if there are any, and serve."""
    # Check the API key first, so that a wrong value is reported immediately and not after minutes of warm-up.
    read_api_key()
    tls_folder = config.serving.tls_folder
    certificate = Certificate(Path(tls_folder)) if tls_folder else None
    create = partial(create_engine, loop=asyncio.get_running_loop())
    async with lead_peers(config, topology, status.board, signals, create) as make_engine:
        started_engine = await _start_engine_in_thread(config, status.board, signals, make_engine)
        await _serve_model(config, started_engine, status, signals, certificate)


async def _run_follower(config: RuntimeConfig, topology: Topology, status: _Status, signals: Signals) -> None:
    """Run as one rank of a group. The leader sends commands and serves the model."""

    def make_rank() -> Rank | PodPart:
        stop = signals.stop_between_buckets
        local_config = fetch_model(config, status.board, stop)
        engine = create_engine_rank(local_config, topology.rank)
        status.board.pin_fields(**engine.report_fields())
        RecipeCache(local_config, engine.recipe_key(), status.board, stop).restore()
        return engine

    try:
        await follow_leader(config, topology, status.board, signals, make_rank)
    except (EngineLost, Stopped):
        raise
    except Exception as error:  # a failed rank that stays up would leave the leader waiting
        log.exception("This rank failed.")
        raise EngineLost(f"This rank failed: {failure_to_serve(error).message}") from error


async def _start_engine_in_thread(
    config: RuntimeConfig, board: ReportBoard, signals: Signals, make: Make
) -> StartedEngine:
    stop = signals.stop_between_buckets
    work = asyncio.ensure_future(run_in_worker_thread(lambda: start_engine(config, board, stop, make)))
    stop_task = asyncio.ensure_future(signals.stop.wait())
    await asyncio.wait({work, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    # Wait only for the drain time. The start checks `stop` between two steps, and one step, such as a compile, may take
    # longer than the pod's grace period.
    await asyncio.wait({work}, timeout=config.serving.drain_seconds)
    if not work.done():
        exit_at_once()
    started_engine = work.result()
    if signals.stop.is_set():
        raise Stopped
    stop_task.cancel()
    return started_engine


def model_port_limits(config: RuntimeConfig) -> ConnectionLimits:
    """Return the connection limits of the model port (docs/reference/openai-api.md)."""
    return ConnectionLimits(
        header_bytes=64 * 1024,
        # Keep idle connections open for longer than load balancers do. If the server closed a connection first, the
        # load balancer might already have sent a request on it.
        keep_alive_seconds=620,
        drain_seconds=config.serving.drain_seconds,
        max_connections=connection_limit(config),
        linger_seconds=LINGER_SECONDS,
    )


async def _serve_model(
    config: RuntimeConfig,
    started_engine: StartedEngine,
    status: _Status,
    signals: Signals,
    certificate: Certificate | None,
) -> None:
    """Open the model port and report `Serving`. After SIGTERM, refuse connections and finish the running answers."""
    serving, engine = config.serving, started_engine.engine
    engine.start_serving()
    engine.counters.padding = started_engine.padding
    status.metric_sources.engine = engine
    metrics = RequestMetrics(status.registry)
    headers = [(INSTANCE_HEADER, status.board.report().instance)]
    async with (
        _application(config, engine, status, metrics, signals) as app,
        exit_on_loss(engine.wait_until_lost if isinstance(engine, CanBeLost) else None, status.board),
        http_server(app, serving.model_port, model_port_limits(config), headers, certificate),
    ):
        status.board.update(phase=Phase.SERVING)
        log.info("Serving %s on port %d", ", ".join(config.model.served_names), serving.model_port)
        counting = publish_counters(lambda: engine.counters, metrics.request_counts, status.board)
        counting_task = asyncio.create_task(counting)
        await signals.stop.wait()
        counting_task.cancel()
        status.board.update(phase=Phase.DRAINING)
        log.info("Draining for at most %d s", serving.drain_seconds)
    await _close_engine(engine)
    log.info("Drained.")


@contextlib.asynccontextmanager
async def _application(
    config: RuntimeConfig,
    engine: Engine,
    status: _Status,
    metrics: RequestMetrics,
    signals: Signals,
) -> AsyncIterator[ASGIApp]:
    """Yield the application of the model port: the engine's application behind the guard."""
    for collector in engine.collectors():
        status.registry.register(collector)
    async with engine.application() as app:
        yield add_guard(
            app,
            config,
            metrics,
            lambda: signals.closing,
            engine.max_pixels(),
            engine.ignored_fields(),
        )


async def _close_engine(engine: Engine) -> None:
    # All answers are complete now. If the engine does not close within the limit, exit, because waiting would only use
    # up the pod's grace period.
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await engine.close()
    except TimeoutError:
        exit_at_once()


def read_config(path: Path) -> RuntimeConfig:
    """Read the RuntimeConfig for `serve`. Raises ConfigError, which names every wrong field."""
    try:
        config = RuntimeConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{path} is not a RuntimeConfig: {faults}.") from error
    if wrong_settings := why_settings_cannot_render(config.engine):
        raise ConfigError(f"{path}: {wrong_settings}.")
    return config


def serve_ports_of_invalid_config(path: Path) -> ServingConfig:
    """Return the ports to report a wrong configuration: the configured ports if valid, else the defaults."""
    try:
        return ServingConfig.model_validate(json.loads(path.read_bytes())["serving"])
    except (OSError, ValueError, KeyError, TypeError):
        return ServingConfig()
