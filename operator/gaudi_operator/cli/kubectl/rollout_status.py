"""`kubectl gaudi rollout status`: wait until a rollout has ended, and report the outcome as an exit code.

Pure functions evaluate the resource. The command, which shows the result, is below these functions.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Annotated, Self

import typer

from gaudi_operator.api.v1alpha1.resource import SINGULAR
from gaudi_operator.api.v1alpha1.status import Condition, ConditionStatus, GaudiInferenceStatus, RevisionPhase
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, SelectedResource, with_resource
from gaudi_operator.core.inference import read_inference_identity, read_inference_status
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.controller_revision import read_controller_revisions
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.text import make_one_line

if TYPE_CHECKING:
    from rich.console import Console

GIVEN_UP = (RevisionPhase.FAILED, RevisionPhase.ROLLED_BACK)


class RolloutStatusOutcome(Enum):
    """The outcome that `kubectl gaudi rollout status` reports: waiting, done or failed."""

    WAITING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True)
class RolloutStatusSummary:
    """The status of a rollout for `kubectl gaudi rollout status`: outcome, sentence and progress.

    `warmup_percent` is the warm-up progress of the slowest pod of the current revision. `ready_replicas` is a text of
    ready and desired replicas, such as "1/2".
    """

    outcome: RolloutStatusOutcome
    sentence: str
    warmup_percent: int
    ready_replicas: str


def evaluate_rollout_status(resource: Manifest, revisions: Sequence[Revision]) -> RolloutStatusSummary:
    """Return the status of a rollout.

    `revisions` are the stored revisions, which show whether the operator has observed a changed annotation.
    """
    status = read_inference_status(resource)
    outcome, sentence = _evaluate_outcome(resource, status, revisions)
    warmup_percent = 100 if outcome is RolloutStatusOutcome.DONE else status.warmup.percent if status.warmup else 0
    ready_replicas = f"{status.ready_replicas}/{resource['spec'].get('replicas', 1)}"
    return RolloutStatusSummary(outcome, make_one_line(sentence), warmup_percent, ready_replicas)


def _evaluate_outcome(
    resource: Manifest, status: GaudiInferenceStatus, revisions: Sequence[Revision]
) -> tuple[RolloutStatusOutcome, str]:
    display_name = f'{SINGULAR} "{resource["metadata"]["name"]}"'
    conditions = {condition.type: condition for condition in status.conditions}
    if not _is_observed(resource, status, revisions):
        return RolloutStatusOutcome.WAITING, f"Waiting for the spec of {display_name} to be observed..."
    if _is_true(conditions.get("Ready")):
        return RolloutStatusOutcome.DONE, f"{display_name} successfully rolled out"
    stalled, ready = conditions.get("Stalled"), conditions.get("Ready")
    if stalled is not None and _is_true(stalled):
        return RolloutStatusOutcome.FAILED, f"{display_name} stopped ({stalled.reason}): {stalled.message}"
    message = ready.message if ready else "no status yet"
    if ready and ready.reason == "RollingBack":
        # Print only the first sentence of the message. The other sentences repeat the reason for every pod, and the
        # condition `Stalled` will report the reason.
        return RolloutStatusOutcome.WAITING, f"{display_name} is rolled back: {message.partition('. ')[0]}"
    return RolloutStatusOutcome.WAITING, f"Waiting for {display_name} rollout to finish: {message}"


def _is_observed(resource: Manifest, status: GaudiInferenceStatus, revisions: Sequence[Revision]) -> bool:
    """Return True if the status describes the current spec.

    The generation changes if the spec changes, but not if an annotation changes. A restart adds an annotation, and a
    retry of a failed revision removes an annotation. After such a change, the revisions in the status show whether the
    operator has observed the change.
    """
    if status.observed_generation < resource["metadata"]["generation"]:
        return False
    if _is_spec_refused(status) or (resource["spec"].get("rollout") or {}).get("revision"):
        return True
    restarted_at = read_inference_identity(resource).restarted_at
    phase_by_name = {revision.name: revision.phase for revision in status.revisions}
    matching_revisions = [revision for revision in revisions if revision.inputs.get("restartedAt") == restarted_at]
    return any(
        revision.name == status.revision.current
        or (revision.failure is not None and phase_by_name.get(revision.name) in GIVEN_UP)
        for revision in matching_revisions
    )


def _is_spec_refused(status: GaudiInferenceStatus) -> bool:
    """Return True if the spec was refused before the operator created a revision for it.

    If the reason is `CapturedBelowThreshold`, the spec has a revision, whose pod captured too few graphs.
    """
    plan = next((condition for condition in status.conditions if condition.type == "PlanAccepted"), None)
    return plan is not None and plan.status is ConditionStatus.FALSE and plan.reason != "CapturedBelowThreshold"


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.status is ConditionStatus.TRUE


LONGEST_WATCH_SECONDS = 240.0
"""The maximum seconds of one watch. Proxies may cut longer watches without an error."""
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


class _BooleanText(StrEnum):
    """The values of the option --watch of `kubectl gaudi rollout status`, for example --watch=false."""

    TRUE = "true"
    FALSE = "false"


Watch = Annotated[_BooleanText, typer.Option("-w", "--watch", help="Wait until the rollout is complete or has failed.")]
Timeout = Annotated[str, typer.Option(help="Timeout, such as 90s or 5m; 0 waits without a limit.")]


@with_resource
def rollout_status(selection: SelectedResource, watch: Watch = _BooleanText.TRUE, timeout: Timeout = "0s") -> None:
    """Show the status of a rollout. The exit code is 1 if the rollout failed, was rolled back or timed out.

    The exit code is 0 after a complete rollout and, with --watch=false, also while the rollout is in progress.
    """
    from rich.console import Console

    timeout_seconds = parse_status_timeout(timeout)
    manifests = (
        _watch_resource(selection, timeout_seconds)
        if watch is _BooleanText.TRUE
        else iter([selection.cluster.fetch_inference(selection.name)])
    )
    with RolloutStatusBar(Console()) as progress_bar:
        for manifest in manifests:
            summary = evaluate_rollout_status(
                manifest, read_controller_revisions(selection.cluster.list_revisions(selection.name))
            )
            if summary.outcome is RolloutStatusOutcome.FAILED:
                raise ResourceCommandError(summary.sentence)
            progress_bar.show(summary)
            if summary.outcome is RolloutStatusOutcome.DONE:
                return
    if watch is _BooleanText.TRUE:
        raise ResourceCommandError(f"timed out after {timeout}: {summary.sentence}")


def _watch_resource(selection: SelectedResource, timeout_seconds: float) -> Iterator[Manifest]:
    """Yield the resource now and after every change, for at most `timeout_seconds`; 0 means no limit."""
    deadline = time.monotonic() + (timeout_seconds or float("inf"))
    while True:
        yield selection.cluster.fetch_inference(selection.name)
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            return
        yield from selection.cluster.watch_inference(selection.name, min(remaining_seconds, LONGEST_WATCH_SECONDS))


def parse_status_timeout(text: str) -> float:
    """Convert the value of --timeout to seconds: "90s", "5m", "1h30m", or "0" for no limit.

    Raises ResourceCommandError if the value is not a duration.
    """
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ResourceCommandError(f"{text} is not a duration: use the form 90s, 5m or 1h30m")
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)


class RolloutStatusBar:
    """The display of `kubectl gaudi rollout status`: a line for every change, and a progress bar on a terminal.

    Use as a context manager.
    """

    def __init__(self, console: "Console") -> None:
        """Create the display. If the console is not a terminal, the display prints only lines."""
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._console, self._last_sentence = console, ""
        text_column = TextColumn("ready {task.fields[ready]}  warm-up of the least advanced pod")
        self._bar = Progress(text_column, BarColumn(), TaskProgressColumn(), console=console, transient=True)
        self._task_id = self._bar.add_task("", total=100, ready="")

    def __enter__(self) -> Self:
        """Start the progress bar if the console is a terminal."""
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the progress bar. The printed lines remain."""
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, summary: RolloutStatusSummary) -> None:
        """Update the progress bar, and print the sentence of the summary if the sentence has changed."""
        self._bar.update(
            self._task_id,
            refresh=self._console.is_terminal,
            completed=summary.warmup_percent,
            ready=summary.ready_replicas,
        )
        if summary.sentence != self._last_sentence:
            self._last_sentence = summary.sentence
            # Disable wrapping, because scripts read one sentence per line.
            self._console.print(self._last_sentence, markup=False, highlight=False, soft_wrap=True)
