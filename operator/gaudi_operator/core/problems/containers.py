"""Problems of containers: a runtime, init or sidecar container cannot start, or ends repeatedly.

The waiting reason of a container disappears during each attempt. The checks therefore also count terminations, so that
conditions do not flap.
"""

from collections.abc import Sequence

from gaudi_operator.api.v1alpha1.status import LastTermination
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.pods.view import OUT_OF_MEMORY, PodView, SideContainer
from gaudi_operator.core.problems.criteria import Criteria
from gaudi_operator.core.problems.resolution import make_problem
from gaudi_operator.core.problems.spec_fields import advise_on_image, advise_on_memory, image_fields
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


def container_start_problem(pod: PodView, criteria: Criteria) -> Problem | None:
    """Return the problem of a runtime container that cannot be created or whose image cannot be pulled."""
    reason = pod.container.waiting_reason if pod.container else None
    if pod.container is None or reason not in _WAITING:
        return None
    said = format_sentence(pod.container.waiting_message or reason)
    advice = advise_on_image(said, image_fields(criteria.template, CONTAINER)) if reason in _IMAGE else _CONTAINER
    why = f"{said} {advice}"
    now, later = (f"Pod {pod.name} {could} start its container: {why}" for could in _COULD)
    # The waiting reason has no start time and changes during one wait (`ErrImagePull`, `ImagePullBackOff`). Therefore
    # use the time since which the pod waits for this container.
    return make_problem(reason, now, pod.container_awaited_since, later)


def side_container_start_problem(pod: PodView, criteria: Criteria) -> Problem | None:
    """Return the problem of the first init container or sidecar that cannot start. The runtime waits for them."""
    for side in pod.side_containers:
        reason = side.container.waiting_reason
        if reason in _WAITING:
            said = format_sentence(side.container.waiting_message or reason)
            images = image_fields(criteria.template, side.name)
            why = f"{said} {advise_on_image(said, images) if reason in _IMAGE else _SIDE_CONTAINER}"
            now, later = (
                f"Pod {pod.name} {could} start its {_describe_side_container(side)}: {why}" for could in _COULD
            )
            return make_problem(reason, now, pod.container_awaited_since, later)
    return None


def side_container_exit_problem(pod: PodView, criteria: Criteria) -> Problem | None:
    """Return the problem of the first init container or sidecar that ends repeatedly with an error."""
    for side in pod.side_containers:
        last = side.container.last_exit
        if last is None or side.is_done or not _ends_repeatedly(side, criteria):
            continue
        reason = "SidecarFails" if side.sidecar else "InitContainerFails"
        log = f"Read its log with `kubectl logs {pod.name} -c {side.name} --previous`."
        remedy = advise_on_memory(criteria.template, side.name) if last.out_of_memory else ""
        said = (
            f"The {_describe_side_container(side)} of pod {pod.name} {how} repeatedly. {format_sentence(str(last))}"
            for how in _HOW
        )
        now, later = (f"{each} {remedy}".rstrip() for each in said)
        return Problem(reason, f"{now} {log}", later)
    return None


def _ends_repeatedly(side: SideContainer, criteria: Criteria) -> bool:
    # The waiting reason disappears while the container runs. Without the number of restarts, the condition would flap.
    last, often = side.container.last_exit, side.container.restarts >= CRASH_LOOP_RESTARTS
    if side.container.waiting_reason == "CrashLoopBackOff":
        return True
    return (
        often and last is not None and last.ended is not None and not criteria.deadlines.has_passed(last.ended, _CALM)
    )


def _describe_side_container(side: SideContainer) -> str:
    return f"{'sidecar' if side.sidecar else 'init container'} {side.name}"


def crash_loop_problem(pod: PodView, criteria: Criteria) -> Problem | None:
    """Return the problem of a runtime container in a crash loop.

    The operator counts terminations itself, because the kubelet resets its back-off while the next container warms up.
    """
    if pod.container is None:
        return None
    # The waiting reason disappears while the container runs. Without the number of restarts, the condition would flap.
    again = pod.container.restarts >= CRASH_LOOP_RESTARTS and not pod.has_gate_condition
    if pod.container.waiting_reason != "CrashLoopBackOff" and not again:
        return None
    last = criteria.terminations.get(pod.name)
    said = last.message if last else "The cause of its termination is unknown"
    reason, advice = _classify_crash(last, criteria) if last else ("CrashLoopBackOff", ())
    log = f"Read its log with `kubectl logs {pod.name} --previous`."
    return Problem(
        reason,
        " ".join((f"The container of pod {pod.name} terminates repeatedly. {format_sentence(said)}", *advice, log)),
        " ".join((f"The container of pod {pod.name} terminated repeatedly. {format_sentence(said)}", *advice)),
    )


def _classify_crash(last: LastTermination, criteria: Criteria) -> tuple[str, Sequence[str]]:
    """Return (reason of a crash, remedies). The remedies are empty if the cause is unknown."""
    if last.reason == OUT_OF_MEMORY:
        memory = advise_on_memory(criteria.template, CONTAINER)
        return "HostOutOfMemory", (memory, "This is memory of the node, not of the card.")
    if last.phase not in _COMPILING:
        return "CrashLoopBackOff", ()
    # The sampler and the defragmenter have no buckets, so removing a bucket does not prevent their crashes.
    if last.phase in (Phase.SAMPLER, Phase.DEFRAGMENTER):
        return "CompileCrashed", ("No bucket causes this failure. Try another image.",)
    bucket = "that bucket" if last.bucket else "the last bucket in its log"
    return "CompileCrashed", (f"Remove {bucket} from spec.bucketing, or try another image.",)
