"""`kubectl gaudi why`: the first reason why a resource is not Ready, the evidence, and the next command.

Pure functions explain a status. The command prints the explanation. docs/reference/conditions.md lists all reasons and
their remedies.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import typer

from gaudi_operator.api.v1alpha1.resource import SINGULAR
from gaudi_operator.api.v1alpha1.status import (
    Condition,
    ConditionStatus,
    GaudiInferenceStatus,
    PodState,
    RevisionPhase,
)
from gaudi_operator.cli.kubectl.options import Output, OutputFormat, SelectedResource, with_resource
from gaudi_operator.cli.kubectl.terminal import create_console, paragraphs
from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_status
from gaudi_runtime.contract.text import make_one_line

LOG = "kubectl logs {pod} -n {namespace} --all-containers --tail=50"
LAST_LOG = "kubectl logs {pod} -n {namespace} --previous --tail=50"
POD = "kubectl describe pod {pod} -n {namespace}"
WORKLOAD = f"kubectl describe replicaset -n {{namespace}} -l {NAME_LABEL}={{name}}"
FORECAST = "gaudi-plan forecast --from-cluster {name} -n {namespace}"
HISTORY = "kubectl gaudi rollout history {name} -n {namespace}"
UNDO = "kubectl gaudi rollout undo {name} -n {namespace}"
RESUME = "kubectl gaudi rollout resume {name} -n {namespace}"
WATCH = "kubectl gaudi status {name} -n {namespace} --watch"
EVENTS = "kubectl events --for gi/{name} -n {namespace}"
EDIT = "kubectl edit gi {name} -n {namespace}"

_NEXT: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("StartingPods", "WarmingUp", "RollingOut", "RollingBack", "ScalingDown"): (WATCH,),
    ("RolloutPaused",): (RESUME,),
    ("RolledBack", "RevisionFailed", "TooManyRecompiles", "TooManyErrors", "ForecastMissed"): (HISTORY, UNDO),
    ("RevisionNotKept",): (HISTORY, EDIT),
    ("CrashLoopBackOff", "CompileCrashed", "HostOutOfMemory", "PodsFail", "Crashed", "EngineLost"): (LAST_LOG, HISTORY),
    ("InitContainerFails", "SidecarFails"): (POD, LOG),
    (
        *("Unschedulable", "SchedulingGated", "UpgradeBlocked", "VolumeNotBound", "PodNotPrepared"),
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    ): (POD,),
    ("PodsRefused",): (WORKLOAD,),
    (
        *("PlanImpossible", "WeightsTooLarge", "NoKvBlock", "ParallelismImpossible", "ThresholdsUnreachable"),
        *("CapturedBelowThreshold", "WarmupIncomplete"),
    ): (FORECAST, EDIT),
    ("WarmupStalled",): (LOG, POD),
    (
        *("ModelNotFound", "ModelUnreadable", "UnsupportedModel", "ModelAccessDenied", "HubUnreachable", "DiskFull"),
        "EngineUnsupported",
        *("ConfigInvalid", "DeviceUnavailable", "PortUnavailable", "ApiKeyBlank", "CertificateUnusable", "StartFailed"),
    ): (LOG, EDIT),
}
NEXT = {reason: commands for reasons, commands in _NEXT.items() for reason in reasons}
"""The next commands by reason. All other reasons require a change of the spec or the installation."""

_OTHERWISE = (EDIT, EVENTS)
_SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")


@dataclass(frozen=True)
class Explanation:
    """The explanation why a resource is not Ready: the first reason, the evidence, and the next commands.

    If `ready` is True, the evidence contains problems that other conditions report.
    """

    ready: bool
    reason: str
    sentence: str
    evidence: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def explain(resource: Manifest) -> Explanation:
    """Explain why a resource is not Ready. The condition Stalled has priority, because it requires action.

    A status that describes an older spec is not used.
    """
    status, metadata = read_status(resource), resource["metadata"]
    conditions = {condition.type: condition for condition in status.conditions}
    identity = {"name": metadata["name"], "namespace": metadata["namespace"]}
    if status.observed_generation != metadata.get("generation", 0):
        sentence = "The operator has not reconciled this spec yet."
        return Explanation(False, "NotObserved", sentence, next=(EVENTS.format(**identity),))
    ready = conditions.get("Ready")
    if ready is not None and ready.status is ConditionStatus.TRUE:
        return Explanation(
            True, make_one_line(ready.reason), make_one_line(ready.message), tuple(_reported_problems(conditions))
        )
    candidates = map(conditions.get, ("Stalled", "PlanAccepted"))
    cause = next((condition for condition in candidates if condition and _explains_not_ready(condition)), ready)
    if cause is None:
        return Explanation(False, "NoStatus", "The status has no conditions yet.", next=(EVENTS.format(**identity),))
    relevant_status = _relevant_status(status, cause.message)
    pod = next((pod for pod in relevant_status.pods if not pod.ready), None)
    commands = NEXT.get(cause.reason, _OTHERWISE)
    # If there is no pod, skip the commands that need a pod. If no command is left, describe the workload that could not
    # create a pod.
    possible_commands = [command for command in commands if pod or "{pod}" not in command] or [WORKLOAD, EVENTS]
    command_args = {**identity, "pod": pod.name if pod else ""}
    return Explanation(
        ready=False,
        reason=make_one_line(cause.reason),
        sentence=make_one_line(cause.message),
        evidence=tuple(map(make_one_line, _evidence(relevant_status, pod, cause.message))),
        next=tuple(make_one_line(command.format(**command_args)) for command in possible_commands),
    )


def _explains_not_ready(condition: Condition) -> bool:
    """Return True if the condition explains why the resource is not Ready: Stalled=True or PlanAccepted=False."""
    return condition.status is (ConditionStatus.TRUE if condition.type == "Stalled" else ConditionStatus.FALSE)


def _reported_problems(conditions: Mapping[str, Condition]) -> Iterator[str]:
    """Yield the problems that the other conditions of a Ready resource report."""
    good_statuses = {
        "Degraded": ConditionStatus.FALSE,
        "BucketCoverage": ConditionStatus.TRUE,
        "SettingsEffective": ConditionStatus.TRUE,
    }
    for condition_type, good_status in good_statuses.items():
        condition = conditions.get(condition_type)
        if condition and condition.status not in (good_status, ConditionStatus.UNKNOWN):
            yield make_one_line(f"{condition_type}: {condition.reason}: {condition.message}")


def _relevant_status(status: GaudiInferenceStatus, sentence: str) -> GaudiInferenceStatus:
    """Return the status with only the revisions that a cause concerns and their pods, the most relevant pod first.

    A cause concerns the current revision, all serving revisions, and the revisions that the `sentence` of the cause
    names.
    """
    current_name = status.revision.current
    serving_names = {revision.name for revision in status.revisions if revision.phase is RevisionPhase.SERVING}
    named = {revision.name for revision in status.revisions if re.search(rf"\b{re.escape(revision.name)}\b", sentence)}
    names = {current_name, *serving_names, *named}
    pods = (pod for pod in status.pods if pod.revision in names)
    revisions = tuple(revision for revision in status.revisions if revision.name in names)
    sorted_pods = sorted(pods, key=lambda pod: (pod.name not in sentence, pod.revision != current_name))
    return status.model_copy(update={"revisions": revisions, "pods": tuple(sorted_pods)})


def _evidence(status: GaudiInferenceStatus, pod: PodState | None, sentence: str) -> Iterator[str]:
    """Yield the evidence for a cause. Messages that the `sentence` of the cause already contains are omitted."""
    for revision in status.revisions:
        if revision.reason:
            failure = f"revision {revision.name} failed ({revision.reason})"
            yield failure if not revision.message or revision.message in sentence else f"{failure}: {revision.message}"
        # Omit the back-off of a failed revision, because a failed revision is not retried.
        elif back_off := revision.back_off:
            yield (
                f"revision {revision.name}: {back_off.failures} attempts have ended, and the next attempt "
                f"starts at {back_off.until}"
            )
    if pod:
        yield (
            f"pod {pod.name}: {pod.phase}, warm-up {pod.warmup_percent} %, "
            f"readiness gate {'open' if pod.gate else 'closed'}, {pod.restarts} restarts"
        )
        messages = (pod.message, pod.last_termination.message if pod.last_termination else None)
        yield from (f"pod {pod.name}: {message}" for message in messages if message and message not in sentence)


@with_resource
def why(selection: SelectedResource, output: Output = OutputFormat.TEXT) -> None:
    """Explain why the resource is not Ready: the first cause, its evidence, and the next command."""
    explanation = explain(selection.cluster.fetch_inference(selection.name))
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(asdict(explanation), indent=1))
        return
    console = create_console()
    for paragraph in paragraphs(list(explanation_lines(selection.name, explanation))):
        console.print(paragraph)


def explanation_lines(name: str, explanation: Explanation) -> Iterator[str]:
    """Yield the output lines of `kubectl gaudi why`. Each sentence of an explanation is on a separate line."""
    heading = f'{SINGULAR} "{name}" is {"Ready" if explanation.ready else "not Ready"} ({explanation.reason}):'
    first, *rest = _SENTENCE_END.split(explanation.sentence)
    yield from (heading, f"  {first}", *(f"  {sentence}" for sentence in rest)) if rest else (f"{heading} {first}",)
    yield from _titled_lines("but" if explanation.ready else "evidence", explanation.evidence)
    yield from _titled_lines("next", explanation.next)


def _titled_lines(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"{title}:"
    yield from (f"  {text}" for text in texts)
