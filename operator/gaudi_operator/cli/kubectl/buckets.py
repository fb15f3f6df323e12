"""`kubectl gaudi buckets`: heat maps of the buckets of a running pod, with their traffic and the cold batches."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.cli.kubectl.options import CommandError, Output, OutputFormat, SelectedResource, with_resource
from gaudi_operator.cli.plan.heat import Cell, HeatMap, Place, format_cell_count, heat_of, length_of
from gaudi_operator.core.resource import read_status
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucket_table import BucketRow, BucketState, BucketTable
from gaudi_runtime.contract.ports import BUCKETS_PATH
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.units import plural

COLD = frozenset({BucketState.COLD, BucketState.UNPLANNED})
PREPARED = frozenset({BucketState.CAPTURED, BucketState.EXECUTED})
WAITING = frozenset({BucketState.PLANNED, BucketState.COMPILING})
MOST_NAMED = 10
CAPTION = (
    "A number: batches of this bucket since the pod became ready. ~: no graph. ...: not warm yet. "
    "cold: left out or not planned."
)

Pod = Annotated[str | None, typer.Option(help="Name of the pod. Defaults to the pod with the most progress.")]


@with_resource
def buckets(selection: SelectedResource, pod: Pod = None, output: Output = OutputFormat.TEXT) -> None:
    """Draw the buckets of a pod, with the state and traffic of each bucket, and the cold batches."""
    pod_name = pod or default_pod_name(read_status(selection.cluster.fetch_inference(selection.name)))
    if pod_name is None:
        raise CommandError(f"{selection.full_name} has no pod with a report of its buckets")
    try:
        table = BucketTable.model_validate_json(selection.cluster.query_pod(selection.name, pod_name, BUCKETS_PATH))
    except ValidationError as error:
        raise CommandError(f"the answer of pod {pod_name} is not a table of buckets") from error
    if output is OutputFormat.JSON:
        typer.echo(table.model_dump_json(by_alias=True, exclude_none=True, indent=1))
        return
    from rich.console import Console

    from gaudi_operator.cli.plan.drawing import heat_table

    console = Console()
    console.print(f"pod {make_one_line(pod_name)}", style="bold", highlight=False, markup=False)
    for heat_map in bucket_heat_maps(table):
        console.print(heat_table(heat_map, console))
    for line in cold_shape_lines(table):
        console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)


def default_pod_name(status: GaudiInferenceStatus) -> str | None:
    """Return the pod whose buckets are drawn by default: a ready pod, or else the pod with the most progress."""
    best_pod = max(status.pods, key=lambda pod: (pod.ready, pod.warmup_percent), default=None)
    return best_pod.name if best_pod else None


def bucket_heat_maps(table: BucketTable) -> Iterator[HeatMap]:
    """Yield the heat maps of `kubectl gaudi buckets`, one per phase with buckets. Only the last map has a caption."""
    rows_by_phase = {phase: [row for row in table.rows if row.phase is phase] for phase in BucketPhase}
    phases = [phase for phase in BucketPhase if rows_by_phase[phase]]
    yield from (_heat_map(phase, rows_by_phase[phase], CAPTION if phase is phases[-1] else "") for phase in phases)


def _heat_map(phase: BucketPhase, rows: Sequence[BucketRow], caption: str) -> HeatMap:
    rows_by_place: defaultdict[Place, list[BucketRow]] = defaultdict(list)
    for row in rows:
        bucket = Bucket(*row.bucket)
        rows_by_place[bucket.batch_size, length_of(phase, bucket)].append(row)
    heat_by_place = heat_of({place: _count_batches(place_rows) for place, place_rows in rows_by_place.items()})
    cells = {place: _heat_cell(place_rows, heat_by_place[place]) for place, place_rows in rows_by_place.items()}
    planned = sum(row.state is not BucketState.UNPLANNED for row in rows)
    outcome = "executed" if any(row.state is BucketState.EXECUTED for row in rows) else "captured"
    prepared = sum(row.state in PREPARED for row in rows)
    vertical_axis = "query tokens" if phase is BucketPhase.PROMPT else "KV blocks of the batch"
    return HeatMap(
        title=f"{plural(planned, f'{phase} bucket')}, {prepared} {outcome}: batch size across, {vertical_axis} down",
        caption=caption,
        batch_sizes=sorted({batch_size for batch_size, _ in rows_by_place}),
        lengths=sorted({length for _, length in rows_by_place}),
        cell=cells.get,
    )


def _count_batches(rows: Iterable[BucketRow]) -> float:
    return float(sum(row.hits + row.misses for row in rows))


def _heat_cell(rows: Sequence[BucketRow], heat: float) -> Cell:
    """Return the cell for buckets that differ only in their context. It shows the worst state of these buckets."""
    states = {row.state for row in rows}
    if states & COLD:
        return Cell("cold", None)
    if states & WAITING:
        return Cell("...", 0.0)
    mark = "~" if BucketState.WITHOUT_GRAPH in states else ""
    return Cell(f"{mark}{format_cell_count(_count_batches(rows))}", heat)


def cold_shape_lines(table: BucketTable) -> Iterator[str]:
    """Yield an output line of `kubectl gaudi buckets` for each shape that ran cold, the most frequent shape first."""
    cold_rows = sorted((row for row in table.rows if row.misses), key=lambda row: row.misses, reverse=True)
    for row in cold_rows[:MOST_NAMED]:
        compile_note = f", {plural(row.compiles, 'compile')} waited for" if row.compiles else ""
        yield f"{row.phase} {tuple(row.bucket)}: {row.misses} of {row.hits + row.misses} batches cold{compile_note}"
    if len(cold_rows) > MOST_NAMED:
        yield f"and {plural(len(cold_rows) - MOST_NAMED, 'more shape')}"
    if table.left_off:
        yield f"{plural(table.left_off, 'more bucket')} did not fit into the answer"
