"""Heat maps of a plan, by batch size and length: padding, graph bytes, hits, or changes.

`heat_maps` returns the maps of one plan. `change_map` returns the map of the differences between two plans. A HeatMap
computes its cells when it is drawn (drawing.py).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.options import HeatMetric
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import plural

if TYPE_CHECKING:
    from gaudi_runtime.forecast.result import Forecast
    from gaudi_runtime.traffic.histogram import Weights

Place = tuple[int, int]
"""(batch size, length) of a cell. The length is in query tokens (prompt) or in KV blocks of the batch (decode)."""


class Cell(NamedTuple):
    """The text of a cell of a heat map and its heat from 0 to 1.

    The heat is None if possible requests have no bucket.
    """

    text: str
    heat: float | None


MISS = Cell("none", None)


@dataclass(frozen=True)
class HeatMap:
    """The heat map of one phase.

    `cell` returns None for a place without possible requests or data. `cell` is called only for places that are drawn,
    because a plan may have millions of places. `caption` explains the heat and the source of the figures.
    """

    title: str
    caption: str
    batch_sizes: Sequence[int]
    lengths: Sequence[int]
    cell: Callable[[Place], Cell | None]

    def downsample(self, columns: int, rows: int) -> "HeatMap":
        """Return a map with at most `columns` batch sizes and `rows` lengths. The title contains the shown counts."""
        batch_sizes, lengths = _downsample(self.batch_sizes, columns), _downsample(self.lengths, rows)
        shown_counts = [
            f"{len(shown_values)} of {len(all_values)} {name}"
            for name, shown_values, all_values in (
                ("batch sizes", batch_sizes, self.batch_sizes),
                ("lengths", lengths, self.lengths),
            )
            if len(shown_values) < len(all_values)
        ]
        title = f"{self.title} (shown: {', '.join(shown_counts)})" if shown_counts else self.title
        return replace(self, title=title, batch_sizes=batch_sizes, lengths=lengths)

    def rows(self) -> Iterable[tuple[int, list[Cell | None]]]:
        """Yield each length with its cells, one cell per batch size."""
        for length in self.lengths:
            yield length, [self.cell((batch_size, length)) for batch_size in self.batch_sizes]


def _downsample(values: Sequence[int], max_count: int) -> Sequence[int]:
    if len(values) <= max_count:
        return values
    # Count the steps backwards from the last value, so that the largest value is always shown.
    step = len(values) / max_count
    return [values[len(values) - 1 - int(step * steps_back)] for steps_back in reversed(range(max_count))]


def heat_maps(
    document: PlanDocument,
    plan: BucketPlan,
    heat: HeatMetric,
    card: str | None = None,
    model: str | None = None,
    trace: Path | None = None,
) -> list[HeatMap]:
    """Return the heat maps of a plan, one per phase.

    Maps of bytes need a card and a model. Maps of hits need a trace of requests.

    Raises ConfigError if the figures of a map are unknown.
    """
    match heat:
        case HeatMetric.BYTES:
            return _bytes_maps(document, plan, card, model)
        case HeatMetric.HITS:
            return _hits_maps(document, plan, trace)
    return [padding_map(plan, phase, document.limits, document.blocks) for phase in BucketPhase]


def _hits_maps(document: PlanDocument, plan: BucketPlan, trace: Path | None) -> list[HeatMap]:
    """Return the maps of a trace's batches per bucket. The caption has the number of batches without a bucket."""
    if trace is None:
        raise ConfigError("a heat map of hits needs traffic. Give the requests with --trace CSV")
    from gaudi_operator.cli.plan.trace import SimulatedServer, TraceFile
    from gaudi_runtime.traffic.batching import DEFAULT_PACE
    from gaudi_runtime.traffic.trace import ColumnNames

    traffic = TraceFile(trace, ColumnNames()).traffic(SimulatedServer(document.limits, document.blocks, DEFAULT_PACE))
    return [_hits_map(plan, phase, traffic.shapes_of(phase), trace) for phase in BucketPhase]


def _hits_map(plan: BucketPlan, phase: BucketPhase, shapes: "Weights", trace: Path) -> HeatMap:
    hits: Counter[Bucket | None] = Counter()
    for shape, batch_count in shapes.items():
        hits[plan.find(phase, *shape)] += round(batch_count)
    miss_count = hits.pop(None, 0)
    description = "prompts of" if phase is BucketPhase.PROMPT else "decode steps, simulated from the arrivals of"
    source = f"{sum(hits.values()) + miss_count} {description} {trace}, {miss_count} find no bucket"
    amounts = _sum_by_place(plan, phase, lambda bucket: hits[bucket])
    caption = f"Batches that are padded to each bucket: {source}."
    return _build_heat_map(phase, plan.buckets_of(phase), _heat_cells(amounts, format_cell_count).get, caption)


def _bytes_maps(document: PlanDocument, plan: BucketPlan, card: str | None, model: str | None) -> list[HeatMap]:
    from gaudi_operator.cli.plan.forecast import forecast_deployment

    forecast = forecast_deployment(document, card, model).forecast
    return [_bytes_map(document, plan, phase, forecast) for phase in BucketPhase]


def _bytes_map(document: PlanDocument, plan: BucketPlan, phase: BucketPhase, forecast: "Forecast") -> HeatMap:
    """Return the map of graph bytes: the sum of the forecast, distributed over the buckets by their weight."""
    from gaudi_runtime.buckets.bucket import bucket_weight

    phase_forecast = forecast.prompt if phase is BucketPhase.PROMPT else forecast.decode
    if (
        phase_forecast is not None
        and phase_forecast.all_graph_bytes is None
        and phase_forecast.compile_seconds is not None
    ):
        raise ConfigError(
            "graph bytes are unknown in TorchCompile until a pod has measured them. Use --heat padding, or set "
            "engine.executionMode: HpuGraphs to see the bytes of HPU graphs"
        )
    if forecast.plan is None or phase_forecast is None or phase_forecast.all_graph_bytes is None:
        raise ConfigError(f"nothing is known about the graphs of card {forecast.card}. Choose another card with --card")
    block_size = document.limits.block_size
    total = phase_forecast.all_graph_bytes
    rate = total.value / sum(bucket_weight(phase, bucket, block_size) for bucket in forecast.plan.buckets_of(phase))
    unit = "token" if phase is BucketPhase.PROMPT else "sequence"
    source = (
        f"{rate / 2**20:.2f} MiB a {unit} for {forecast.model or 'a model'} on {forecast.card}, {total.confidence}: "
    )
    return bytes_map(plan, phase, lambda bucket: rate * bucket_weight(phase, bucket, block_size), source + total.source)


def bytes_map(plan: BucketPlan, phase: BucketPhase, bytes_of: Callable[[Bucket], float], source: str) -> HeatMap:
    """Return the map of estimated graph bytes, summed over contexts. `source` names the source of the estimate."""
    amounts = _sum_by_place(plan, phase, bytes_of)
    total = format_cell_bytes(sum(amounts.values()))
    return _build_heat_map(
        phase,
        plan.buckets_of(phase),
        _heat_cells(amounts, format_cell_bytes).get,
        f"Estimated graph memory, {total} in all: {source}.",
    )


def padding_map(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> HeatMap:
    """Return the map of mean padding, in percent of the compute.

    A cell contains the shapes between a bucket and the next smaller buckets. All shapes have the same weight, even if
    no request has the shape. The compute of a prompt batch is its number of tokens without cached context. The compute
    of a decode batch is batch size * KV blocks. If the shapes of a cell have no bucket, the cell is a miss
    (docs/internals/bucketing.md, Coverage).
    """
    compute = "batch size * tokens, no cached context" if phase is BucketPhase.PROMPT else "batch size * KV blocks"
    caption = f"Mean padding of the shapes in this range ({compute}), each with the same weight; none = no bucket."
    return _build_heat_map(phase, plan.buckets_of(phase), _PaddingCells(plan, phase, limits, kv_blocks).cell, caption)


def change_map(
    phase: BucketPhase, kept: Sequence[Bucket], added: Sequence[Bucket], dropped: Sequence[Bucket]
) -> HeatMap:
    """Return the heat map of the differences between two plans. In the prompt phase, a cell sums all contexts."""
    counts_by_place: defaultdict[Place, Counter[str]] = defaultdict(Counter)
    for sign, buckets in (("=", kept), ("+", added), ("-", dropped)):
        for bucket in buckets:
            counts_by_place[bucket.batch_size, length_of(phase, bucket)][sign] += 1
    cells = {place: _change_cell(sign_counts) for place, sign_counts in counts_by_place.items()}
    bucket_counts = f"{len(kept) + len(dropped)} -> {plural(len(kept) + len(added), f'{phase} bucket')}"
    caption = "= kept, + added, - dropped (dark)."
    return _build_heat_map(phase, (*kept, *added, *dropped), cells.get, caption, bucket_counts)


def _change_cell(sign_counts: Counter[str]) -> Cell:
    text = "".join(f"{sign}{sign_counts[sign]}" for sign in "+-" if sign_counts[sign])
    heat = {(True, False): 0.3, (True, True): 0.6, (False, True): 0.9}
    return Cell(text, heat[sign_counts["+"] > 0, sign_counts["-"] > 0]) if text else Cell("=", 0.0)


def length_of(phase: BucketPhase, bucket: Bucket) -> int:
    """Return the position of a bucket on the length axis of a heat map: query tokens (prompt) or KV blocks (decode)."""
    return bucket.query_len if phase is BucketPhase.PROMPT else bucket.num_blocks


def _build_heat_map(
    phase: BucketPhase,
    buckets: Sequence[Bucket],
    cell: Callable[[Place], Cell | None],
    caption: str,
    bucket_counts: str | None = None,
) -> HeatMap:
    length_unit = "query tokens" if phase is BucketPhase.PROMPT else "KV blocks of the batch"
    return HeatMap(
        title=f"{bucket_counts or plural(len(buckets), f'{phase} bucket')}: batch size across, {length_unit} down",
        caption=caption,
        batch_sizes=sorted({bucket.batch_size for bucket in buckets}),
        lengths=sorted({length_of(phase, bucket) for bucket in buckets}),
        cell=cell,
    )


def _sum_by_place(plan: BucketPlan, phase: BucketPhase, amount_of: Callable[[Bucket], float]) -> dict[Place, float]:
    sums: defaultdict[Place, float] = defaultdict(float)
    for bucket in plan.buckets_of(phase):
        sums[bucket.batch_size, length_of(phase, bucket)] += amount_of(bucket)
    return sums


def heat_of(amounts: Mapping[Place, float]) -> dict[Place, float]:
    """Return the heat of each place on a logarithmic scale from the smallest positive amount to the largest."""
    positive_amounts = [amount for amount in amounts.values() if amount > 0] or [1.0]
    min_log, log_span = log(min(positive_amounts)), log(max(positive_amounts) / min(positive_amounts)) or 1.0
    return {
        place: min(1.0, max(0.05, (log(amount) - min_log) / log_span)) if amount > 0 else 0.0
        for place, amount in amounts.items()
    }


def _heat_cells(amounts: Mapping[Place, float], format_amount: Callable[[float], str]) -> dict[Place, Cell]:
    heat = heat_of(amounts)
    return {place: Cell(format_amount(amount), heat[place]) for place, amount in amounts.items()}


class _PaddingCells:
    """The padding in each cell of the heat map of one phase."""

    def __init__(self, plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> None:
        self._plan, self._phase, self._limits, self._kv_blocks = plan, phase, limits, kv_blocks
        self._smaller_batches = _next_smaller_values({bucket.batch_size for bucket in plan.buckets_of(phase)})
        self._shorter_lengths = _next_smaller_values({length_of(phase, bucket) for bucket in plan.buckets_of(phase)})

    def cell(self, place: Place) -> Cell | None:
        batch_size, length = place
        min_batch, min_length = self._smaller_batches[batch_size] + 1, self._shorter_lengths[length] + 1
        if length == 0 or not _has_possible_shape(
            self._phase, self._limits, self._kv_blocks, (min_batch, batch_size), (min_length, length)
        ):
            return None
        query_len, blocks = (length, 0) if self._phase is BucketPhase.PROMPT else (1, length)
        bucket = self._plan.find(self._phase, batch_size, query_len, blocks)
        if bucket is None:
            return MISS
        mean_compute = (min_batch + batch_size) / 2 * (min_length + length) / 2
        padding = 1 - mean_compute / (bucket.batch_size * length_of(self._phase, bucket))
        return Cell(f"{padding:.0%}", padding)


def _next_smaller_values(values: Iterable[int]) -> dict[int, int]:
    """Return a map from every value to the next smaller value; the smallest value maps to 0."""
    sorted_values = sorted(values)
    return dict(zip(sorted_values, [0, *sorted_values], strict=False))


def _has_possible_shape(phase: BucketPhase, limits: Limits, kv_blocks: int, sizes: Place, lengths: Place) -> bool:
    """Return True if requests can have a shape of the cell. `sizes` and `lengths` are (smallest, largest) pairs."""
    if phase is BucketPhase.PROMPT:
        return lengths[0] <= limits.longest_query and sizes[0] * lengths[0] <= limits.max_num_batched_tokens
    if limits.contiguous_paged_attention:
        return lengths[0] <= kv_blocks
    referenced_blocks = sizes[1] * -(-limits.max_model_len // limits.block_size)
    return lengths[0] <= min(referenced_blocks, kv_blocks) and sizes[0] <= lengths[1]


_BINARY = ("B", "K", "M", "G", "T", "P")
_DECIMAL = ("", "k", "m", "g")


def format_cell_bytes(amount: float) -> str:
    """Format bytes for a cell of a heat map, in powers of 1024: 367M, 1.4G."""
    return _format_scaled(amount, 1024, _BINARY)


def format_cell_count(amount: float) -> str:
    """Format a count for a cell of a heat map, in powers of 1000: 12, 1.2k, 3m (m means millions)."""
    return _format_scaled(amount, 1000, _DECIMAL)


def _format_scaled(amount: float, base: int, units: tuple[str, ...]) -> str:
    unit_index = 0
    while amount >= base and unit_index < len(units) - 1:
        amount /= base
        unit_index += 1
    return f"{amount:.1f}{units[unit_index]}" if unit_index and amount < 10 else f"{amount:.0f}{units[unit_index]}"
