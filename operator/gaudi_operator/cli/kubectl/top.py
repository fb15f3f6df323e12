"""`kubectl gaudi top`: all models of a namespace, or of all namespaces, with their current load.

Percentages, recompilations and memory come from the status. Tokens per second and padding are computed from two
successive reports of each ready pod.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.cli.kubectl.options import Output, OutputFormat, SelectedCluster, with_cluster
from gaudi_operator.cli.kubectl.terminal import count_fitting_columns, create_console, table
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_status
from gaudi_runtime.contract.ports import WARMUP_PATH
from gaudi_runtime.contract.report import ServedPhase, WarmupReport
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import format_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

AT_ONCE = 16
"""The number of pods that are read concurrently."""
COLUMNS = (
    "NAME",
    "PHASE",
    "READY",
    "WARMING UP",
    "PROMPT",
    "DECODE",
    "RECOMPILES",
    "PADDING",
    "IN TOK/S",
    "OUT TOK/S",
    "GRAPHS",
    "KV CACHE",
)

NUMBERS = COLUMNS[2:]
"""The columns that are aligned right."""

Everywhere = Annotated[bool, typer.Option("-A", "--all-namespaces", help="List models across all namespaces.")]
Seconds = Annotated[float, typer.Option(min=1, max=600, help="Time in seconds over which token rates are measured.")]


@dataclass(frozen=True)
class TopRow:
    """The row of one resource in `kubectl gaudi top`.

    Percentages are whole numbers. Rates are in tokens per second, and memory is in bytes of a card. None means unknown.
    """

    namespace: str
    name: str
    phase: str
    ready: str
    warmup_percent: int | None
    warming_pods: int
    prompt_percent: int | None
    decode_percent: int | None
    recompiles: int
    padding_percent: float | None
    prompt_tokens_per_second: float | None
    output_tokens_per_second: float | None
    graph_bytes: int | None
    kv_cache_bytes: int | None
    advice: str | None = None


def resource_row(
    resource: Manifest, before: Sequence[WarmupReport], after: Sequence[WarmupReport], seconds: float
) -> TopRow:
    """Return the row of a resource in `kubectl gaudi top`. The reports `before` and `after` are `seconds` apart.

    The rates include only pods that have a report in both lists.
    """
    status, metadata = read_status(resource), resource["metadata"]
    before_by_instance = {report.instance: report for report in before}
    pairs = [(before_by_instance[report.instance], report) for report in after if report.instance in before_by_instance]
    prompt_rate = _tokens_per_second(((old.served.prompt, new.served.prompt) for old, new in pairs), seconds)
    output_rate = _tokens_per_second(((old.served.decode, new.served.decode) for old, new in pairs), seconds)
    return TopRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        phase=status.phase,
        ready=status.ready,
        warmup_percent=status.warmup.percent if status.warmup else None,
        warming_pods=sum(pod.warmup_percent < 100 for pod in status.pods if pod.revision == status.revision.current),
        prompt_percent=status.captured_percent.prompt,
        decode_percent=status.captured_percent.decode,
        recompiles=status.recompiles.since_ready,
        padding_percent=_padding_percent(after),
        prompt_tokens_per_second=prompt_rate if pairs else None,
        output_tokens_per_second=output_rate if pairs else None,
        graph_bytes=status.memory.graph_bytes if status.memory else None,
        kv_cache_bytes=status.memory.kv_cache_bytes if status.memory else None,
        advice=status.plan.advice.message if status.plan and status.plan.advice else None,
    )


def _tokens_per_second(phase_pairs: Iterable[tuple[ServedPhase, ServedPhase]], seconds: float) -> float:
    return sum(max(0, new.real_tokens - old.real_tokens) for old, new in phase_pairs) / seconds


def _padding_percent(reports: Iterable[WarmupReport]) -> float | None:
    """Return the padding as a percentage of all tokens that the pods have computed since they started serving."""
    phases = [phase for report in reports for phase in (report.served.prompt, report.served.decode)]
    padded_tokens = sum(phase.padded_tokens for phase in phases)
    real_tokens = sum(phase.real_tokens for phase in phases)
    return None if padded_tokens == 0 else max(0, padded_tokens - real_tokens) * 100 / padded_tokens


def ready_pod_names(status: GaudiInferenceStatus) -> list[str]:
    """Return the names of the ready pods, whose reports `kubectl gaudi top` reads."""
    return [pod.name for pod in status.pods if pod.ready]


RequestReport = Callable[[str, str, str], str]
"""A function that reads the report of a pod, given (namespace, resource, pod)."""


Reports = dict[tuple[str, str], list[WarmupReport]]
"""Reports by (namespace, resource)."""


def read_reports(resources: Sequence[Manifest], request_report: RequestReport) -> Reports:
    """Read the reports of the ready pods of each resource. Pods that do not answer are omitted."""
    pod_keys = [
        (resource["metadata"]["namespace"], resource["metadata"]["name"], pod)
        for resource in resources
        for pod in ready_pod_names(read_status(resource))
    ]
    reports: Reports = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (namespace, name, _), report in zip(
            pod_keys, pool.map(lambda key: _read_pod_report(request_report, *key), pod_keys), strict=True
        ):
            if report:
                reports.setdefault((namespace, name), []).append(report)
    return reports


def _read_pod_report(request_report: RequestReport, namespace: str, name: str, pod: str) -> WarmupReport | None:
    try:
        return WarmupReport.model_validate_json(request_report(namespace, name, pod))
    except (ConfigError, ValidationError):
        return None


@with_cluster
def top(
    selection: SelectedCluster,
    everywhere: Everywhere = False,
    seconds: Seconds = 5.0,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Show all models: warm-up, recompilations, padding, tokens per second and memory."""
    cluster = selection.cluster

    def request_report(namespace: str, name: str, pod: str) -> str:
        return cluster.query_pod(name, pod, WARMUP_PATH, namespace)

    resources = cluster.list_inferences(everywhere)
    old_reports, start = read_reports(resources, request_report), time.monotonic()
    if old_reports:
        time.sleep(seconds)
    new_reports, elapsed_seconds = read_reports(resources, request_report), time.monotonic() - start
    rows = [_row_from_reports(resource, old_reports, new_reports, elapsed_seconds) for resource in resources]
    if output is OutputFormat.JSON:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    if not rows:
        typer.echo("No GaudiInferences found" + (f" in namespace {cluster.namespace}." if not everywhere else "."))
        return
    _print_rows(rows, everywhere)


def _row_from_reports(resource: Manifest, old_reports: Reports, new_reports: Reports, seconds: float) -> TopRow:
    key = (resource["metadata"]["namespace"], resource["metadata"]["name"])
    return resource_row(resource, old_reports.get(key, ()), new_reports.get(key, ()), seconds)


def _print_rows(rows: Sequence[TopRow], all_namespaces: bool) -> None:
    console = create_console()
    for renderable in top_output(rows, all_namespaces, console.width):
        console.print(renderable)


def top_output(top_rows: Sequence[TopRow], all_namespaces: bool, width: int) -> Iterator["RenderableType"]:
    """Yield the output of `kubectl gaudi top`: a table of the columns that fit into `width` characters, and advice."""
    from rich.text import Text

    titles = ("NAMESPACE", *COLUMNS) if all_namespaces else COLUMNS
    rows = [_coloured_cells(top_row, all_namespaces) for top_row in top_rows]
    column_count = count_fitting_columns(titles, rows, width)
    yield table(titles[:column_count], [row[:column_count] for row in rows], NUMBERS)
    if titles[column_count:]:
        yield Text(f"No room for {', '.join(titles[column_count:])}: widen the terminal.", style="dim")
    for top_row in top_rows:
        if top_row.advice:
            name = f"{top_row.namespace}/{top_row.name}" if all_namespaces else top_row.name
            yield Text(make_one_line(f"{name}: {top_row.advice}"))


def _coloured_cells(top_row: TopRow, all_namespaces: bool) -> list["Text"]:
    from rich.text import Text

    colour = (
        "green"
        if top_row.phase == "Serving"
        else "red"
        if top_row.phase in ("Stalled", "SpecRefused", "RolledBack")
        else "yellow"
    )
    row = [
        Text(make_one_line(cell), style=colour if title == "PHASE" else "")
        for title, cell in zip(COLUMNS, row_cells(top_row), strict=True)
    ]
    return [Text(top_row.namespace), *row] if all_namespaces else row


def row_cells(top_row: TopRow) -> tuple[str, ...]:
    """Return the cells of a row of `kubectl gaudi top`, in the order of COLUMNS."""
    return (
        top_row.name,
        top_row.phase,
        top_row.ready,
        _format_warming_pods(top_row),
        _format_whole_number(top_row.prompt_percent, " %"),
        _format_whole_number(top_row.decode_percent, " %"),
        str(top_row.recompiles),
        _format_whole_number(top_row.padding_percent, " %"),
        _format_whole_number(top_row.prompt_tokens_per_second),
        _format_whole_number(top_row.output_tokens_per_second),
        "-" if top_row.graph_bytes is None else format_bytes(top_row.graph_bytes),
        "-" if top_row.kv_cache_bytes is None else format_bytes(top_row.kv_cache_bytes),
    )


def _format_warming_pods(top_row: TopRow) -> str:
    """Return the number of pods that are warming up and the progress of the slowest pod; "-" without such pods."""
    if top_row.warming_pods == 0:
        return "-"
    pods = "1 pod" if top_row.warming_pods == 1 else f"{top_row.warming_pods} pods"
    return f"{pods}, {top_row.warmup_percent or 0} %"


def _format_whole_number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
