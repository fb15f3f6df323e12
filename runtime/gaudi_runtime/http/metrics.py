"""Prometheus metrics of the report, the engine and the requests, in a separate registry.

docs/reference/metrics.md lists the names.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gaudi_runtime.contract.compiles import StepPart
from gaudi_runtime.contract.report import (
    BucketPhase,
    Phase,
    RequestCountsReport,
    ServedTrafficReport,
    SharedRecipesOutcome,
    WarmupReport,
)
from gaudi_runtime.engine_protocol.engine import Engine, EngineLoad
from gaudi_runtime.report.served import summarize_served
from gaudi_runtime.traffic.serving_histogram import ServingHistogram

MOST_BUCKET_SERIES = 512
"""A plan with more buckets has no series for single buckets."""


@dataclass
class MetricSources:
    """The sources of the metrics and probes. `engine` is set when the engine begins to serve."""

    read_report: Callable[[], WarmupReport]
    engine: Engine | None = None

    def heartbeat_seconds(self) -> float:
        """Return the seconds since the last iteration of the engine's loop; 0 before the engine serves."""
        return 0.0 if self.engine is None else self.engine.heartbeat_seconds()


class RequestMetrics:
    """Counters of requests to the model port."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter("gaudi_requests", "Requests answered.", ["endpoint", "code"], registry=registry)
        running = Gauge("gaudi_requests_running", "Requests that are being answered.", registry=registry)
        running.set_function(lambda: self._running)
        self._running = self._answered = self._failed = 0

    @contextmanager
    def track_request(self) -> Iterator[None]:
        """Count a request for the engine, from its arrival to the end of its answer."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def count_answer(self, endpoint: str, status: int, *, is_engine_request: bool) -> None:
        """Count an answer with this HTTP `status`. `is_engine_request` is True if the request is for the engine."""
        self.requests.labels(endpoint, str(status)).inc()
        if is_engine_request:
            self._answered += 1
            self._failed += status >= 500

    def count_broken_answer(self) -> None:
        """Count an answer that began successfully but is incomplete."""
        self._failed += 1

    def request_counts(self) -> RequestCountsReport:
        """Return the counts of requests in the form of the report."""
        return RequestCountsReport(running=self._running, answered=self._answered, failed=self._failed)


class _RuntimeCollector(Collector):
    """A collector that reads the report and the engine at scrape time, so that no figure is stored twice."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yield the current gauges and counters."""
        report = self._sources.read_report()
        yield _phase_metric(report)
        yield from _bucket_metrics(report)
        yield from _recipe_metrics(report)
        engine = self._sources.engine
        yield from _traffic_metrics(summarize_served(engine.counters) if engine else ServedTrafficReport())
        if engine is not None:
            yield _batches_by_bucket(report, engine.counters)
            yield from _load_metrics(engine.current_load())


def new_metrics_registry(sources: MetricSources) -> CollectorRegistry:
    """Return a registry with the metrics of the runtime and of its process."""
    registry = CollectorRegistry()
    registry.register(_RuntimeCollector(sources))
    ProcessCollector(registry=registry)
    return registry


def _phase_metric(report: WarmupReport) -> Metric:
    family = GaugeMetricFamily("gaudi_phase", "1 for the current phase of start-up.", labels=["phase"])
    for phase in Phase:
        family.add_metric([phase], float(phase is report.phase))
    return family


def _bucket_metrics(report: WarmupReport) -> Iterator[Metric]:
    buckets = GaugeMetricFamily("gaudi_buckets", "Buckets by phase and state.", labels=["phase", "state"])
    graph_bytes = GaugeMetricFamily("gaudi_graph_bytes", "Measured bytes of graphs.", labels=["phase"])
    for phase, progress in (("prompt", report.prompt), ("decode", report.decode)):
        buckets.add_metric([phase, "planned"], progress.planned)
        buckets.add_metric([phase, "warmed"], progress.warmed)
        buckets.add_metric([phase, "captured"], progress.captured)
        graph_bytes.add_metric([phase], progress.graph_bytes)
    if report.vision:
        buckets.add_metric(["vision", "planned"], report.vision.planned)
        buckets.add_metric(["vision", "warmed"], report.vision.warmed)
    yield buckets
    yield graph_bytes
    yield GaugeMetricFamily("gaudi_warmup_seconds", "Duration of start-up so far.", value=report.elapsed_seconds)


def _recipe_metrics(report: WarmupReport) -> Iterator[Metric]:
    recipes = GaugeMetricFamily("gaudi_recipes_found", "Planned buckets with a recipe at start.", labels=["phase"])
    recipes.add_metric(["prompt"], report.prompt.cached)
    recipes.add_metric(["decode"], report.decode.cached)
    yield recipes
    help_text = "Compile seconds saved by existing recipes."
    yield GaugeMetricFamily("gaudi_recipe_saved_seconds", help_text, value=report.recipe_seconds_saved)
    if report.shared_recipes:
        shared = GaugeMetricFamily("gaudi_shared_recipes", "1 for the outcome of shared recipes.", labels=["outcome"])
        for outcome in SharedRecipesOutcome:
            shared.add_metric([outcome], float(outcome is report.shared_recipes.outcome))
        yield shared


def _traffic_metrics(served: ServedTrafficReport) -> Iterator[Metric]:
    hits = CounterMetricFamily("gaudi_graph_hits", "Batches with a warm graph.", labels=["phase"])
    cold_shapes = CounterMetricFamily("gaudi_cold_shapes", "Batches without a warm graph.", labels=["phase"])
    recompiles = CounterMetricFamily("gaudi_recompiles_since_ready", "Compiles on the request path.", labels=["phase"])
    tokens = CounterMetricFamily("gaudi_batch_tokens", "Tokens of batches.", labels=["phase", "size"])
    blocks = CounterMetricFamily("gaudi_batch_blocks", "KV blocks of batches.", labels=["phase", "size"])
    for phase, served_phase in ((BucketPhase.PROMPT, served.prompt), (BucketPhase.DECODE, served.decode)):
        hits.add_metric([phase], served_phase.hits)
        cold_shapes.add_metric([phase], served_phase.misses)
        recompiles.add_metric([phase], served_phase.recompiles)
        tokens.add_metric([phase, "real"], served_phase.real_tokens)
        tokens.add_metric([phase, "padded"], served_phase.padded_tokens)
        blocks.add_metric([phase, "real"], served_phase.real_blocks)
        blocks.add_metric([phase, "padded"], served_phase.padded_blocks)
    if served.vision:
        hits.add_metric(["vision"], served.vision.hits)
        cold_shapes.add_metric(["vision"], served.vision.misses)
        recompiles.add_metric(["vision"], served.vision.recompiles)
    step_seconds = CounterMetricFamily(
        "gaudi_step_compile_seconds", "Time of the recompilations in steps.", labels=["part"]
    )
    for part in StepPart:
        steps = [step for step in served.step_compiles if step.part is part]
        step_seconds.add_metric([part], sum(step.seconds for step in steps))
        if part is not StepPart.FORWARD:
            recompiles.add_metric([part], sum(step.count for step in steps))
    yield from (hits, cold_shapes, recompiles, tokens, blocks, step_seconds)
    help_text = "Forwards and other parts of steps that waited for short compiles only."
    yield CounterMetricFamily("gaudi_small_compiles", help_text, value=served.small_compiles)


def _batches_by_bucket(report: WarmupReport, counters: ServingHistogram) -> Metric:
    """Return the number of batches by bucket as a metric, if the plan has few buckets."""
    # The first observed shapes are exported, not the most frequent ones. The most frequent ones change, and a series
    # that ends and restarts breaks rates.
    family = CounterMetricFamily("gaudi_bucket_batches", "Batches by bucket.", labels=["phase", "bucket", "graph"])
    if report.prompt.planned + report.decode.planned <= MOST_BUCKET_SERIES:
        for (phase, bucket), tally in islice(counters.tallies.items(), MOST_BUCKET_SERIES):
            bucket_name = "x".join(map(str, bucket))
            family.add_metric([phase, bucket_name, "warm"], tally.hits)
            family.add_metric([phase, bucket_name, "cold"], tally.misses)
    return family


def _load_metrics(load: EngineLoad) -> Iterator[Metric]:
    yield GaugeMetricFamily("gaudi_sequences_running", "Sequences in a batch.", value=load.running)
    yield GaugeMetricFamily("gaudi_sequences_waiting", "Sequences that wait.", value=load.waiting)
    yield GaugeMetricFamily("gaudi_kv_blocks_used", "KV blocks in use.", value=load.used_blocks)
    yield GaugeMetricFamily("gaudi_kv_blocks", "KV blocks of the cache.", value=load.total_blocks)
