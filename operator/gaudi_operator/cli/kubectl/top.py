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
    first = {each.instance: each for each in before}
    pairs = [(first[each.instance], each) for each in after if each.instance in first]
    prompt = _tokens_per_second(((old.served.prompt, new.served.prompt) for old, new in pairs), seconds)
    output = _tokens_per_second(((old.served.decode, new.served.decode) for old, new in pairs), seconds)
    return TopRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        phase=status.phase,
        ready=status.ready,
        warmup_percent=status.warmup.percent if status.warmup else None,
        warming_pods=sum(each.warmup_percent < 100 for each in status.pods if each.revision == status.revision.current),
        prompt_percent=status.captured_percent.prompt,
        decode_percent=status.captured_percent.decode,
        recompiles=status.recompiles.since_ready,
        padding_percent=_padding_percent(after),
        prompt_tokens_per_second=prompt if pairs else None,
        output_tokens_per_second=output if pairs else None,
        graph_bytes=status.memory.graph_bytes if status.memory else None,
        kv_cache_bytes=status.memory.kv_cache_bytes if status.memory else None,
        advice=status.plan.advice.message if status.plan and status.plan.advice else None,
    )


def _tokens_per_second(pairs: Iterable[tuple[ServedPhase, ServedPhase]], seconds: float) -> float:
    return sum(max(0, new.real_tokens - old.real_tokens) for old, new in pairs) / seconds


def _padding_percent(reports: Iterable[WarmupReport]) -> float | None:
    """Return the padding as a percentage of all tokens that the pods have computed since they started serving."""
    phases = [phase for each in reports for phase in (each.served.prompt, each.served.decode)]
    padded = sum(each.padded_tokens for each in phases)
    real = sum(each.real_tokens for each in phases)
    return None if padded == 0 else max(0, padded - real) * 100 / padded


def ready_pod_names(status: GaudiInferenceStatus) -> list[str]:
    """Return the names of the ready pods, whose reports `kubectl gaudi top` reads."""
    return [each.name for each in status.pods if each.ready]


Ask = Callable[[str, str, str], str]
"""A function that reads the report of a pod, given (namespace, resource, pod)."""


Reports = dict[tuple[str, str], list[WarmupReport]]
"""Reports by (namespace, resource)."""


def read_reports(resources: Sequence[Manifest], ask: Ask) -> Reports:
    """Read the reports of the ready pods of each resource. Pods that do not answer are omitted."""
    wanted = [
        (each["metadata"]["namespace"], each["metadata"]["name"], pod)
        for each in resources
        for pod in ready_pod_names(read_status(each))
    ]
    found: Reports = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (namespace, name, _), report in zip(
            wanted, pool.map(lambda each: _read_pod_report(ask, *each), wanted), strict=True
        ):
            if report:
                found.setdefault((namespace, name), []).append(report)
    return found


def _read_pod_report(ask: Ask, namespace: str, name: str, pod: str) -> WarmupReport | None:
    try:
        return WarmupReport.model_validate_json(ask(namespace, name, pod))
    except (ConfigError, ValidationError):
        return None


@with_cluster
def top(
    asked: SelectedCluster, everywhere: Everywhere = False, seconds: Seconds = 5.0, output: Output = OutputFormat.TEXT
) -> None:
    """Show all models: warm-up, recompilations, padding, tokens per second and memory."""
    cluster = asked.cluster

    def request_report(namespace: str, name: str, pod: str) -> str:
        return cluster.query_pod(name, pod, WARMUP_PATH, namespace)

    resources = cluster.list_inferences(everywhere)
    before, began = read_reports(resources, request_report), time.monotonic()
    if before:
        time.sleep(seconds)
    after, passed = read_reports(resources, request_report), time.monotonic() - began
    lines = [_row_from_reports(each, before, after, passed) for each in resources]
    if output is OutputFormat.JSON:
        typer.echo(json.dumps([asdict(each) for each in lines], indent=1))
        return
    if not lines:
        typer.echo("No GaudiInferences found" + (f" in namespace {cluster.namespace}." if not everywhere else "."))
        return
    _print_rows(lines, everywhere)


def _row_from_reports(resource: Manifest, before: Reports, after: Reports, seconds: float) -> TopRow:
    key = (resource["metadata"]["namespace"], resource["metadata"]["name"])
    return resource_row(resource, before.get(key, ()), after.get(key, ()), seconds)


def _print_rows(lines: Sequence[TopRow], everywhere: bool) -> None:
    screen = create_console()
    for each in top_output(lines, everywhere, screen.width):
        screen.print(each)


def top_output(lines: Sequence[TopRow], everywhere: bool, width: int) -> Iterator["RenderableType"]:
    """Yield the output of `kubectl gaudi top`: a table of the columns that fit into `width` characters, and advice."""
    from rich.text import Text

    titles = ("NAMESPACE", *COLUMNS) if everywhere else COLUMNS
    rows = [_coloured_cells(each, everywhere) for each in lines]
    shown = count_fitting_columns(titles, rows, width)
    yield table(titles[:shown], [row[:shown] for row in rows], NUMBERS)
    if titles[shown:]:
        yield Text(f"No room for {', '.join(titles[shown:])}: widen the terminal.", style="dim")
    for each in lines:
        if each.advice:
            name = f"{each.namespace}/{each.name}" if everywhere else each.name
            yield Text(make_one_line(f"{name}: {each.advice}"))


def _coloured_cells(found: TopRow, everywhere: bool) -> list["Text"]:
    from rich.text import Text

    colour = (
        "green"
        if found.phase == "Serving"
        else "red"
        if found.phase in ("Stalled", "SpecRefused", "RolledBack")
        else "yellow"
    )
    row = [
        Text(make_one_line(cell), style=colour if title == "PHASE" else "")
        for title, cell in zip(COLUMNS, row_cells(found), strict=True)
    ]
    return [Text(found.namespace), *row] if everywhere else row


def row_cells(found: TopRow) -> tuple[str, ...]:
    """Return the cells of a row of `kubectl gaudi top`, in the order of COLUMNS."""
    return (
        found.name,
        found.phase,
        found.ready,
        _format_warming_pods(found),
        _format_whole_number(found.prompt_percent, " %"),
        _format_whole_number(found.decode_percent, " %"),
        str(found.recompiles),
        _format_whole_number(found.padding_percent, " %"),
        _format_whole_number(found.prompt_tokens_per_second),
        _format_whole_number(found.output_tokens_per_second),
        "-" if found.graph_bytes is None else format_bytes(found.graph_bytes),
        "-" if found.kv_cache_bytes is None else format_bytes(found.kv_cache_bytes),
    )


def _format_warming_pods(found: TopRow) -> str:
    """Return the number of pods that are warming up and the progress of the slowest pod; "-" without such pods."""
    if found.warming_pods == 0:
        return "-"
    pods = "1 pod" if found.warming_pods == 1 else f"{found.warming_pods} pods"
    return f"{pods}, {found.warmup_percent or 0} %"


def _format_whole_number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
