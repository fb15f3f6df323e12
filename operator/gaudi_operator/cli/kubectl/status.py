"""`kubectl gaudi status`: a resource and its pods, why it is not Ready, and the next command, live with --watch."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus, PodState
from gaudi_operator.cli.kubectl.explanation import NOT_OBSERVED, Explanation, explain
from gaudi_operator.cli.kubectl.leader import minutes_without_change, why_no_leader
from gaudi_operator.cli.kubectl.selected_resource import (
    Output,
    OutputFormat,
    ResourceCommandError,
    SelectedResource,
    with_resource,
)
from gaudi_operator.cli.kubectl.terminal import terminal_console, terminal_paragraphs, terminal_table
from gaudi_operator.core.inference import read_inference_status
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.text_formats import parse_timestamp_text
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import plural

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

BAR = 12
COLUMNS = ("POD", "PHASE", "WARM-UP", "PROMPT", "DECODE", "TRAFFIC", "RESTARTS")
NO_LEADER = "NoLeader"
DEFAULT_LEASE = "gaudi-system/gaudi-operator"
REFRESH_SECONDS = 60.0
"""The maximum seconds between two updates with --watch, so that the minutes without a change are up to date."""

Live = Annotated[bool, typer.Option("-w", "--watch", help="Keep watching until Ctrl-C.")]
LeaseOption = Annotated[
    str, typer.Option("--lease", metavar="NAMESPACE/NAME", help="Lease whose holder is the leading operator.")
]


@dataclass(frozen=True)
class _StatusView:
    """The content of `kubectl gaudi status`: heading lines, pods, and the explanation with the next commands."""

    heading: tuple[str, ...]
    pods: tuple[PodState, ...]
    explanation: Explanation


def view_status(resource: Manifest, now: datetime, explanation: Explanation) -> _StatusView:
    """Return the content of `kubectl gaudi status` at the time `now`."""
    status = read_inference_status(resource)
    name = f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"
    engine_note = "simulated" if resource["spec"].get("engine", {}).get("name") == EngineName.SIM else ""
    minutes = 0 if explanation.ready else minutes_without_change(resource, now)
    change_note = f"no change for {plural(minutes, 'minute')}" if minutes else ""
    ready_note = f"{status.ready_replicas}/{resource['spec'].get('replicas', 1)} ready"
    parts = (name, ready_note, engine_note, _remaining_warmup(status, now), change_note)
    first_line = make_one_line("  ".join(part for part in parts if part))
    return _StatusView((first_line, f"{explanation.reason}: {explanation.sentence}"), status.pods, explanation)


def _remaining_warmup(status: GaudiInferenceStatus, now: datetime) -> str:
    """Return the remaining warm-up time as text; empty if the time is unknown or the warm-up is complete."""
    eta = parse_timestamp_text(status.warmup.eta) if status.warmup else None
    if eta is None or status.warmup is None or status.warmup.percent == 100:
        return ""
    seconds = max(0, round((eta - now).total_seconds()))
    return f"warm-up {status.warmup.percent} %, about {seconds // 60}:{seconds % 60:02} left (an estimate)"


def status_pod_rows(pods: Sequence[PodState]) -> Iterator[tuple[str, ...]]:
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


def add_leader_to_status(explanation: Explanation, no_leader_reason: str | None, lease: str) -> Explanation:
    """Return the explanation with what the Lease shows.

    If no operator leads, the status may be out of date, so this reason comes first. If an operator leads but has not
    reconciled the spec, the log of the operator may show why.
    """
    namespace = lease.partition("/")[0]
    log = f"kubectl logs -n {namespace} -l app.kubernetes.io/name=gaudi-operator --tail=50"
    if no_leader_reason is None:
        return (
            replace(explanation, next=(*explanation.next, log)) if explanation.reason == NOT_OBSERVED else explanation
        )
    return replace(
        explanation,
        reason=NO_LEADER,
        sentence=f"No operator leads: the Lease {lease} {no_leader_reason}. Ready pods keep serving, but no gate opens "
        f"and no rollout continues. The last status was {explanation.reason}: {explanation.sentence}",
        next=(f"kubectl get lease,pods -n {namespace}", log),
    )


def _read_explanation(selection: SelectedResource, resource: Manifest, lease: str, now: datetime) -> Explanation:
    """Return the explanation of a resource. A missing leader comes first, because the status may be out of date."""
    explanation = explain(resource)
    namespace, slash, name = lease.partition("/")
    if not slash:
        raise ResourceCommandError(f"--lease {lease} has no namespace: give NAMESPACE/NAME")
    try:
        reason = why_no_leader(selection.cluster.find_lease(selection.name, namespace, name), now)
    except ConfigError as error:
        unknown = () if explanation.ready else (f"whether an operator leads is unknown: {error}",)
        return replace(explanation, evidence=(*explanation.evidence, *unknown))
    return add_leader_to_status(explanation, reason, lease)


@with_resource
def status(
    selection: SelectedResource,
    watch: Live = False,
    lease: LeaseOption = DEFAULT_LEASE,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Show the resource and its pods, why it is not Ready or has problems, and the next command."""
    from rich.live import Live as LiveDisplay

    resource, now = selection.cluster.fetch_inference(selection.name), datetime.now(UTC)
    explanation = _read_explanation(selection, resource, lease, now)
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(asdict(explanation), indent=1))
        return
    console, view = terminal_console(), view_status(resource, now, explanation)
    if not watch:
        console.print(status_output(view))
    elif console.is_terminal:
        with LiveDisplay(status_output(view), console=console, auto_refresh=False) as display:
            for changed_view in _watch_views(selection, lease):
                display.update(status_output(changed_view), refresh=True)
    else:
        # Print every change separately. Without a terminal, a live display prints nothing until it ends, and a watch
        # has no end.
        for changed_view in _watch_views(selection, lease):
            console.print(status_output(changed_view), "")


def _watch_views(selection: SelectedResource, lease: str) -> Iterator[_StatusView]:
    """Yield the content now and after every change, without an end. Raises ConfigError if the resource is deleted."""
    last_view = None
    while True:
        # Read the resource before each watch, because the previous connection may have been cut. Each watch starts with
        # the current object, so skip a view that was already yielded.
        for manifest in chain(
            [selection.cluster.fetch_inference(selection.name)],
            selection.cluster.watch_inference(selection.name, REFRESH_SECONDS),
        ):
            now = datetime.now(UTC)
            view = view_status(manifest, now, _read_explanation(selection, manifest, lease, now))
            if view != last_view:
                last_view = view
                yield view


def status_output(view: _StatusView) -> "RenderableType":
    """Return the output of `kubectl gaudi status`: the heading, a table of the pods, the evidence and the commands."""
    from rich.console import Group
    from rich.text import Text

    rows = [_coloured_cells(row, pod) for row, pod in zip(status_pod_rows(view.pods), view.pods, strict=True)]
    lines = [Text(line, style="" if number else "bold") for number, line in enumerate(view.heading)]
    pod_table = terminal_table(COLUMNS, rows) if view.pods else Text("No pods.")
    return Group(*lines, pod_table, *terminal_paragraphs(list(_explanation_lines(view.explanation))))


def _explanation_lines(explanation: Explanation) -> Iterator[str]:
    no_problem = explanation.ready and not explanation.evidence and explanation.reason != NO_LEADER
    for title, texts in (
        ("but:" if explanation.ready else "evidence:", explanation.evidence),
        ("if requests are slow:" if no_problem else "next:", explanation.next),
    ):
        if texts:
            yield title
        yield from (f"  {text}" for text in texts)


def _coloured_cells(row: Sequence[str], pod: PodState) -> list["Text"]:
    from rich.text import Text

    colour = "green" if pod.ready else "red" if pod.last_termination and not pod.warmup_percent else "yellow"
    cells = zip(COLUMNS, row, strict=True)
    return [Text(cell, style=colour if column in ("PHASE", "WARM-UP") else "") for column, cell in cells]
