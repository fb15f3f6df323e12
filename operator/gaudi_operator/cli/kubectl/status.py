"""`kubectl gaudi status`: an overview of a resource and its pods, live with --watch."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, PodState
from gaudi_operator.cli.kubectl.options import Output, OutputFormat, SelectedResource, with_resource
from gaudi_operator.cli.kubectl.rollout_status import LONGEST_WATCH_SECONDS
from gaudi_operator.cli.kubectl.terminal import create_console, table
from gaudi_operator.cli.kubectl.why import explain
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_status
from gaudi_operator.core.text_formats import parse_timestamp
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.contract.text import make_one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BAR = 12
COLUMNS = ("POD", "PHASE", "WARM-UP", "PROMPT", "DECODE", "TRAFFIC", "RESTARTS")

Live = Annotated[bool, typer.Option("-w", "--watch", help="Keep watching until Ctrl-C.")]


def heading_lines(resource: Manifest, now: datetime) -> Iterator[str]:
    """Yield the first lines of `kubectl gaudi status`, which describe the whole resource."""
    status, explanation = read_status(resource), explain(resource)
    name = f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"
    engine_note = "simulated" if resource["spec"].get("engine", {}).get("name") == EngineName.SIM else ""
    parts = (name, status.phase, f"{status.ready} ready", engine_note, _remaining_warmup(status, now))
    yield make_one_line("  ".join(part for part in parts if part))
    yield f"{explanation.reason}: {explanation.sentence}"
    yield from explanation.evidence if explanation.ready else ()
    if status.plan and status.plan.advice:
        yield make_one_line(status.plan.advice.message)


def _remaining_warmup(status: GaudiInferenceStatus, now: datetime) -> str:
    """Return the remaining warm-up time as text; empty if the time is unknown or the warm-up is complete."""
    eta = parse_timestamp(status.warmup.eta) if status.warmup else None
    if eta is None or status.warmup is None or status.warmup.percent == 100:
        return ""
    seconds = max(0, round((eta - now).total_seconds()))
    return f"warm-up {status.warmup.percent} %, about {seconds // 60}:{seconds % 60:02} left (an estimate)"


def pod_rows(pods: Sequence[PodState]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of `kubectl gaudi status`, one per pod, with cells in the order of COLUMNS.

    There is no column for the revision, because the pod's name contains the revision.
    """
    for pod in pods:
        captured_percent = pod.captured_percent
        yield tuple(
            map(
                make_one_line,
                (
                    pod.name,
                    pod.phase,
                    f"{_progress_bar(pod.warmup_percent)} {pod.warmup_percent:3} %",
                    _format_percent(captured_percent.prompt),
                    _format_percent(captured_percent.decode),
                    "yes" if pod.ready else "gate open" if pod.gate else "no",
                    str(pod.restarts),
                ),
            )
        )


def _progress_bar(percent: int) -> str:
    filled_cells = percent * BAR // 100
    return "█" * filled_cells + "░" * (BAR - filled_cells)


def _format_percent(value: int | None) -> str:
    return "-" if value is None else f"{value} %"


@with_resource
def status(selection: SelectedResource, watch: Live = False, output: Output = OutputFormat.TEXT) -> None:
    """Show the resource and its pods: progress bars, phases, estimated end, and the reasons for waiting."""
    from rich.live import Live as LiveDisplay

    resource = selection.cluster.fetch_inference(selection.name)
    if output is OutputFormat.JSON:
        typer.echo(
            json.dumps(read_status(resource).model_dump(mode="json", by_alias=True, exclude_none=True), indent=1)
        )
        return
    console = create_console()
    if not watch:
        console.print(status_output(resource))
    elif console.is_terminal:
        with LiveDisplay(status_output(resource), console=console, auto_refresh=False) as display:
            for manifest in _watch_resource(selection):
                display.update(status_output(manifest), refresh=True)
    else:
        # Print every change separately. Without a terminal, a live display prints nothing until it ends, and a watch
        # has no end.
        for manifest in _watch_resource(selection):
            console.print(status_output(manifest), "")


def _watch_resource(selection: SelectedResource) -> Iterator[Manifest]:
    """Yield the resource now and after every change, without an end. Raises ConfigError if the resource is deleted."""
    last_version = ""
    while True:
        # Read the resource before each watch, because the previous connection may have been cut. Each watch starts with
        # the current object, so skip a version that was already yielded.
        for manifest in chain(
            [selection.cluster.fetch_inference(selection.name)],
            selection.cluster.watch_inference(selection.name, LONGEST_WATCH_SECONDS),
        ):
            if manifest["metadata"]["resourceVersion"] != last_version:
                last_version = manifest["metadata"]["resourceVersion"]
                yield manifest


def status_output(resource: Manifest) -> "RenderableType":
    """Return the output of `kubectl gaudi status`: the heading, a table of the pods, and notes."""
    from rich.console import Group
    from rich.text import Text

    pods = read_status(resource).pods
    rows = [_coloured_cells(row, pod) for row, pod in zip(pod_rows(pods), pods, strict=True)]
    lines = [
        Text(line, style="bold" if index == 0 else "")
        for index, line in enumerate(heading_lines(resource, datetime.now(UTC)))
    ]
    pod_table = table(COLUMNS, rows) if pods else Text("No pods.")
    return Group(*lines, pod_table, *(Text(note, style="dim") for note in pod_notes(pods, explain(resource).sentence)))


def pod_notes(pods: Sequence[PodState], sentence: str = "") -> Iterator[str]:
    """Yield the notes of `kubectl gaudi status`: the messages of pods that are not ready, each message once.

    A message is omitted if the heading, `sentence`, already contains the message.
    """
    names_by_message: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        if pod.message and not pod.ready and make_one_line(pod.message) not in sentence:
            names_by_message[pod.message].append(pod.name)
    yield from (make_one_line(f"{', '.join(names)}: {message}") for message, names in names_by_message.items())


def _coloured_cells(row: Sequence[str], pod: PodState) -> list["Text"]:
    from rich.text import Text

    colour = "green" if pod.ready else "red" if pod.last_termination and not pod.warmup_percent else "yellow"
    cells = zip(COLUMNS, row, strict=True)
    return [Text(cell, style=colour if column in ("PHASE", "WARM-UP") else "") for column, cell in cells]
