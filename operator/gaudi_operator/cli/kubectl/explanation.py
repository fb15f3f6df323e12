"""The explanation of a status: the first reason why a resource is not Ready, the evidence, and the next command.

All functions are pure. docs/how-to/troubleshoot.md lists the reasons of Stalled and their remedies.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1.status import (
    Condition,
    ConditionStatus,
    GaudiInferenceStatus,
    PodState,
    RevisionPhase,
)
from gaudi_operator.core.inference import read_inference_status
from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.core.observed import Manifest
from gaudi_runtime.contract.text import make_one_line

LOG = "kubectl logs {pod} -n {namespace} --all-containers --tail=50"
LAST_LOG = "kubectl logs {pod} -n {namespace} --previous --tail=50"
POD = "kubectl describe pod {pod} -n {namespace}"
WORKLOAD = f"kubectl describe replicaset -n {{namespace}} -l {NAME_LABEL}={{name}}"
FORECAST = "gaudi-plan forecast --from-cluster {name} -n {namespace}"
HISTORY = "kubectl gaudi rollout history {name} -n {namespace}"
UNDO = "kubectl gaudi rollout undo {name} -n {namespace}"
RESUME = "kubectl gaudi rollout resume {name} -n {namespace}"
SCALE_UP = "kubectl scale gi {name} -n {namespace} --replicas=1"
WATCH = "kubectl gaudi status {name} -n {namespace} --watch"
EVENTS = "kubectl events --for gi/{name} -n {namespace}"
EDIT = "kubectl edit gi {name} -n {namespace}"
LEARN = "kubectl gaudi plan learn {name} -n {namespace}"
RESTART = "kubectl gaudi rollout restart {name} -n {namespace}"
PODS = f"kubectl describe pods -n {{namespace}} -l {NAME_LABEL}={{name}}"
AUTOSCALER = "kubectl describe hpa {name} -n {namespace}"

_NEXT: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("StartingPods", "WarmingUp", "RollingOut", "RollingBack", "ScalingDown"): (WATCH, LOG),
    ("ScaledToZero",): (SCALE_UP,),
    ("ColdShapes",): (LEARN,),
    ("BelowThresholds", "BucketsMissing", "SettingsIgnored"): (FORECAST, EDIT),
    ("ReplicasLost",): (PODS,),
    ("ClassChanged",): (RESTART,),
    ("RolloutPaused",): (RESUME,),
    ("RolledBack", "RevisionFailed", "TooManyRecompiles", "TooManyErrors", "ForecastMissed"): (HISTORY, UNDO),
    ("CrashLoopBackOff", "CompileCrashed", "HostOutOfMemory", "PodsFail", "Crashed", "EngineLost"): (LAST_LOG, HISTORY),
    ("InitContainerFails", "SidecarFails"): (POD, LOG),
    (
        *("Unschedulable", "SchedulingGated", "UpgradeBlocked", "VolumeNotBound", "PodNotPrepared"),
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    ): (POD,),
    ("PodsRefused",): (WORKLOAD,),
    (
        *("PlanImpossible", "BucketsMissing", "ThresholdsUnreachable"),
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

NOT_OBSERVED = "NotObserved"
_OTHERWISE = (EDIT, EVENTS)
_GOOD_STATUS = {
    "Degraded": ConditionStatus.FALSE,
    "BucketCoverage": ConditionStatus.TRUE,
    "SettingsEffective": ConditionStatus.TRUE,
    "ClassApplied": ConditionStatus.TRUE,
    "AutoscalerActive": ConditionStatus.TRUE,
}
"""The conditions that report problems of a Ready resource, with the status without a problem."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of a status: whether the resource is Ready, the first reason, the evidence, and next commands.

    If `ready` is True, the evidence contains the problems that other conditions report.
    """

    ready: bool
    reason: str
    sentence: str
    evidence: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def explain(resource: Manifest) -> Explanation:
    """Explain a status. If the resource is not Ready, the condition Stalled has priority, because it requires action.

    A status that describes an older spec is not used.
    """
    status, metadata = read_inference_status(resource), resource["metadata"]
    conditions = {condition.type: condition for condition in status.conditions}
    identity = {"name": metadata["name"], "namespace": metadata["namespace"]}
    if status.observed_generation != metadata.get("generation", 0):
        sentence = "The operator has not reconciled this spec yet."
        return Explanation(False, NOT_OBSERVED, sentence, next=(EVENTS.format(**identity),))
    ready = conditions.get("Ready")
    if ready is not None and ready.status is ConditionStatus.TRUE:
        return _explain_ready(status, ready, identity)
    candidates = map(conditions.get, ("Stalled", "PlanAccepted"))
    cause = next((condition for condition in candidates if condition and _explains_not_ready(condition)), ready)
    if cause is None:
        return Explanation(False, "NoStatus", "The status has no conditions yet.", next=(EVENTS.format(**identity),))
    relevant_status = _relevant_status(status, cause.message)
    return Explanation(
        ready=False,
        reason=make_one_line(cause.reason),
        sentence=make_one_line(cause.message),
        evidence=tuple(map(make_one_line, _evidence(relevant_status, cause.message))),
        next=_next_commands(NEXT.get(cause.reason, _OTHERWISE), relevant_status.pods, identity),
    )


def _explain_ready(status: GaudiInferenceStatus, ready: Condition, identity: Mapping[str, str]) -> Explanation:
    problems = [
        condition
        for condition in status.conditions
        if condition.status not in (_GOOD_STATUS.get(condition.type, condition.status), ConditionStatus.UNKNOWN)
    ]
    evidence = [f"{problem.type}: {problem.reason}: {problem.message}" for problem in problems]
    # A model that has no known problem may still be slow. A learned plan then shows what other buckets would save.
    commands = [command for problem in problems for command in _commands_of(problem)] or [
        *NEXT.get(ready.reason, (LEARN,))
    ]
    return Explanation(
        ready=True,
        reason=make_one_line(ready.reason),
        sentence=make_one_line(ready.message),
        evidence=tuple(map(make_one_line, evidence)),
        next=_next_commands(commands, (), identity),
    )


def _commands_of(problem: Condition) -> Sequence[str]:
    # The autoscaler has its own reasons.
    return (AUTOSCALER,) if problem.type == "AutoscalerActive" else NEXT.get(problem.reason, _OTHERWISE)


def _next_commands(commands: Sequence[str], pods: Sequence[PodState], identity: Mapping[str, str]) -> tuple[str, ...]:
    """Return the commands with names. Commands that need a pod are for the first pod that is not ready.

    Without such a pod, these commands are omitted. If no command is left, the next command describes the workload that
    could not create a pod.
    """
    pod = next((pod.name for pod in pods if not pod.ready), "")
    possible_commands = [command for command in commands if pod or "{pod}" not in command] or [WORKLOAD, EVENTS]
    return tuple(make_one_line(command.format(**identity, pod=pod)) for command in dict.fromkeys(possible_commands))


def _explains_not_ready(condition: Condition) -> bool:
    """Return True if the condition explains why the resource is not Ready: Stalled=True or PlanAccepted=False."""
    return condition.status is (ConditionStatus.TRUE if condition.type == "Stalled" else ConditionStatus.FALSE)


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


def _evidence(status: GaudiInferenceStatus, sentence: str) -> Iterator[str]:
    """Yield the evidence for a cause: failed revisions, back-offs, and messages of pods that are not ready.

    Equal messages of several pods are merged. Messages that the `sentence` of the cause already contains are omitted.
    """
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
    names_by_message: defaultdict[str, list[str]] = defaultdict(list)
    for pod in status.pods:
        for message in (pod.message, pod.last_termination.message if pod.last_termination else None):
            if message and not pod.ready and message not in sentence:
                names_by_message[message].append(pod.name)
    for message, names in names_by_message.items():
        yield f"pod {', '.join(names)}: {message}"
