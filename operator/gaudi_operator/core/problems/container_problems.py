"""Problems of containers: a runtime, init or sidecar container cannot start, or ends repeatedly.

The waiting reason of a container disappears during each attempt. The checks therefore also count terminations, so that
conditions do not flap.
"""

from collections.abc import Sequence

from gaudi_operator.api.v1alpha1.status import LastTermination
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.pods.pod_view import OUT_OF_MEMORY, PodView, SideContainer
from gaudi_operator.core.problems.criteria import ProblemCriteria
from gaudi_operator.core.problems.resolution import make_resolvable_problem
from gaudi_operator.core.problems.spec_fields import advise_on_image_field, advise_on_memory_field, image_fields
from gaudi_operator.core.text_formats import format_sentence
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.errors import Problem

_IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
_WAITING = _IMAGE | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_CONTAINER = "Check that the objects named in spec.engine.env, spec.model.source and spec.pod exist in this namespace."
_SIDE_CONTAINER = (
    "Check that the objects named in env and volumeMounts of the container exist in this namespace, and that "
    "the container does not run as root."
)

CRASH_LOOP_RESTARTS = 2
"""The number of restarts after which a container that never served is in a crash loop."""

_COMPILING = frozenset({Phase.COMPILING, Phase.CAPTURING, Phase.SAMPLER, Phase.DEFRAGMENTER})
_CALM = 600
"""Seconds without a termination after which a running container is no longer in a crash loop, as in the kubelet."""

_HOW = ("terminates", "terminated")
_COULD = ("cannot", "could not")


def container_start_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the problem of a runtime container that cannot be created or whose image cannot be pulled."""
    reason = pod.container.waiting_reason if pod.container else None
    if pod.container is None or reason not in _WAITING:
        return None
    cause = format_sentence(pod.container.waiting_message or reason)
    advice = (
        advise_on_image_field(cause, image_fields(criteria.template, CONTAINER)) if reason in _IMAGE else _CONTAINER
    )
    explanation = f"{cause} {advice}"
    message, lasting_message = (f"Pod {pod.name} {verb} start its container: {explanation}" for verb in _COULD)
    # The waiting reason has no start time and changes during one wait (`ErrImagePull`, `ImagePullBackOff`). Therefore
    # use the time since which the pod waits for this container.
    return make_resolvable_problem(reason, message, pod.container_awaited_since, lasting_message)


def side_container_start_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the problem of the first init container or sidecar that cannot start. The runtime waits for them."""
    for side_container in pod.side_containers:
        reason = side_container.container.waiting_reason
        if reason in _WAITING:
            cause = format_sentence(side_container.container.waiting_message or reason)
            images = image_fields(criteria.template, side_container.name)
            explanation = f"{cause} {advise_on_image_field(cause, images) if reason in _IMAGE else _SIDE_CONTAINER}"
            message, lasting_message = (
                f"Pod {pod.name} {verb} start its {_describe_side_container(side_container)}: {explanation}"
                for verb in _COULD
            )
            return make_resolvable_problem(reason, message, pod.container_awaited_since, lasting_message)
    return None


def side_container_exit_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the problem of the first init container or sidecar that ends repeatedly with an error."""
    for side_container in pod.side_containers:
        last_exit = side_container.container.last_exit
        if last_exit is None or side_container.is_done or not _ends_repeatedly(side_container, criteria):
            continue
        reason = "SidecarFails" if side_container.is_sidecar else "InitContainerFails"
        log = f"Read its log with `kubectl logs {pod.name} -c {side_container.name} --previous`."
        remedy = advise_on_memory_field(criteria.template, side_container.name) if last_exit.out_of_memory else ""
        sentences = (
            f"The {_describe_side_container(side_container)} of pod {pod.name} {verb} repeatedly. "
            f"{format_sentence(str(last_exit))}"
            for verb in _HOW
        )
        message, lasting_message = (f"{sentence} {remedy}".rstrip() for sentence in sentences)
        return Problem(reason, f"{message} {log}", lasting_message)
    return None


def _ends_repeatedly(side_container: SideContainer, criteria: ProblemCriteria) -> bool:
    # The waiting reason disappears while the container runs. Without the number of restarts, the condition would flap.
    container = side_container.container
    last_exit, restarts_often = container.last_exit, container.restarts >= CRASH_LOOP_RESTARTS
    if container.waiting_reason == "CrashLoopBackOff":
        return True
    return (
        restarts_often
        and last_exit is not None
        and last_exit.ended_at is not None
        and not criteria.deadlines.has_passed(last_exit.ended_at, _CALM)
    )


def _describe_side_container(side_container: SideContainer) -> str:
    return f"{'sidecar' if side_container.is_sidecar else 'init container'} {side_container.name}"


def crash_loop_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the problem of a runtime container in a crash loop.

    The operator counts terminations itself, because the kubelet resets its back-off while the next container warms up.
    """
    # A cause outside the revision is no crash (pod_problems.py).
    if pod.container is None or (pod.container.last_exit and pod.container.last_exit.external_reason):
        return None
    # The waiting reason disappears while the container runs. Without the number of restarts, the condition would flap.
    restarts_often = pod.container.restarts >= CRASH_LOOP_RESTARTS and not pod.has_gate_condition
    if pod.container.waiting_reason != "CrashLoopBackOff" and not restarts_often:
        return None
    termination = criteria.terminations.get(pod.name)
    cause = termination.message if termination else "The cause of its termination is unknown"
    reason, remedies = _classify_crash(termination, criteria) if termination else ("CrashLoopBackOff", ())
    log = f"Read its log with `kubectl logs {pod.name} --previous`."
    return Problem(
        reason,
        " ".join((f"The container of pod {pod.name} terminates repeatedly. {format_sentence(cause)}", *remedies, log)),
        " ".join((f"The container of pod {pod.name} terminated repeatedly. {format_sentence(cause)}", *remedies)),
    )


def _classify_crash(termination: LastTermination, criteria: ProblemCriteria) -> tuple[str, Sequence[str]]:
    """Return (reason of a crash, remedies). The remedies are empty if the cause is unknown."""
    if termination.reason == OUT_OF_MEMORY:
        advice = advise_on_memory_field(criteria.template, CONTAINER)
        return "HostOutOfMemory", (advice, "This is memory of the node, not of the card.")
    if termination.phase not in _COMPILING:
        return "CrashLoopBackOff", ()
    # The sampler and the defragmenter have no buckets, so removing a bucket does not prevent their crashes.
    if termination.phase in (Phase.SAMPLER, Phase.DEFRAGMENTER):
        return "CompileCrashed", ("No bucket causes this failure. Try another image.",)
    bucket = "that bucket" if termination.bucket else "the last bucket in its log"
    return "CompileCrashed", (f"Remove {bucket} from spec.bucketing, or try another image.",)
