"""Problems that prevent the pods of a revision from serving, found in pods, ReplicaSets and reports.

Pods that end before they are ready (rejected by their node, or evicted during warm-up) are reported together. The
ReplicaSet replaces such pods, so they are no longer replicas. They stay in the cluster with the message of their node
(docs/how-to/troubleshoot.md, While pods start).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from gaudi_operator.core.gate.judgement import ADD_SIZES, has_only_vision_recompiles
from gaudi_operator.core.gate.thresholds import (
    WARMUP_INCOMPLETE,
    explain_threshold_shortfall,
    why_thresholds_unreachable,
)
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.start_delays import (
    SCHEDULING_GATED,
    UNSCHEDULABLE_SECONDS,
    creation_delayed_since,
    describe_delaying_scheduling_gates,
    is_delayed_by_scheduling_gates,
    preparation_delayed_since,
    scheduling_delayed_since,
    why_creation_is_delayed,
    why_preparation_is_delayed,
    why_scheduling_is_delayed,
)
from gaudi_operator.core.pods.terminations import describe_activity_at_termination
from gaudi_operator.core.problems.claims import advise_on_claim_mounts, explain_unbound_claims, mentions_volume_claims
from gaudi_operator.core.problems.container_problems import (
    container_start_problem,
    crash_loop_problem,
    side_container_exit_problem,
    side_container_start_problem,
)
from gaudi_operator.core.problems.criteria import ProblemCriteria
from gaudi_operator.core.problems.learned_plan import why_learned_plan_missed_forecast
from gaudi_operator.core.problems.resolution import (
    RESOLVED_BY_OTHERS,
    make_resolvable_problem,
    worst_unresolved_problem,
)
from gaudi_operator.core.text_formats import format_sentence
from gaudi_runtime.contract.failures import CRASH_REASONS
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.errors import Checks, Problem

_BEFORE_WARM_UP = (Phase.STARTING, Phase.FETCHING, Phase.LOADING)

REPORT_SECONDS = 10.0
"""The maximum seconds between reports of a starting pod, even without progress."""

FEWEST_ERRORS = 5
"""The minimum number of failed answers before their percentage counts."""


def worst_pod_problem(
    pods: Iterable[PodView], replica_sets: Iterable[Manifest], criteria: ProblemCriteria
) -> Problem | None:
    """Return the worst problem of `pods` and their ReplicaSets, or None."""
    creation_problems = (
        problem for replica_set in replica_sets if (problem := _pod_creation_problem(replica_set, criteria))
    )
    return worst_unresolved_problem(chain(pod_problems(pods, criteria), creation_problems))


def pod_problems(pods: Iterable[PodView], criteria: ProblemCriteria) -> Iterator[Problem]:
    """Yield the problem of each pod that has a problem."""
    return (problem for pod in pods if (problem := pod_problem(pod, criteria)))


def is_pod_problem_of_revision(problem: Problem) -> bool:
    """Return True if the revision itself causes the problem of its pods, not their environment."""
    return problem.reason not in RESOLVED_BY_OTHERS


def pod_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the first problem of one pod, or None."""
    return _CHECKS(pod, criteria)


def _reported_start_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    failure = pod.report.failure if pod.report else None
    if failure is None:
        return None
    if failure.reason in CRASH_REASONS and (loop := crash_loop_problem(pod, criteria)):
        return loop
    # Use a time that later restarts do not change, so that the deadline for others can expire.
    first_try = pod.container is None or pod.container.restarts == 0
    since = pod.report_received_at if first_try else pod.starting_since
    message, lasting_message = (f"Pod {pod.name} {verb} start: {failure.message}" for verb in ("cannot", "could not"))
    return make_resolvable_problem(failure.reason, message, since, lasting_message)


def _last_failure_problem(pod: PodView, _: ProblemCriteria) -> Problem | None:
    """Return the failure that ended the previous container, until the next container has loaded the model.

    Only a failure with a cause outside the revision is returned. All other failures count as crashes.
    """
    last_exit, since = pod.container.last_exit if pod.container else None, pod.starting_since
    if last_exit is None or last_exit.external_reason is None or last_exit.ended_at is None or since is None:
        return None
    is_past = last_exit.ended_at < since or (pod.report is not None and pod.report.phase not in _BEFORE_WARM_UP)
    if is_past:
        return None
    cause = format_sentence(last_exit.message.removeprefix(f"{last_exit.external_reason}: "))
    message = f"Pod {pod.name} could not start: {cause} Its container restarts and tries again."
    return make_resolvable_problem(last_exit.external_reason, message, since)


def _scheduling_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    message = (
        None if criteria.room.to_come else why_scheduling_is_delayed(pod, UNSCHEDULABLE_SECONDS, criteria.deadlines)
    )
    if message is None:
        return None
    message, since = format_sentence(message), scheduling_delayed_since(pod)
    if is_delayed_by_scheduling_gates(pod):
        return _scheduling_gate_problem(pod, since, criteria)
    if mentions_volume_claims(message):
        summary, remedies = explain_unbound_claims(pod.name, message, criteria), _node_remedies(message)
        suffix = f" For the other nodes: {'; '.join(remedies)}." if remedies else ""
        return make_resolvable_problem("VolumeNotBound", f"{summary}{suffix}", since)
    summary = f"Pod {pod.name} is unschedulable: {message}"
    if criteria.room.remedy:
        return make_resolvable_problem("UpgradeBlocked", f"{summary} {criteria.room.remedy}", since)
    # While the operator can still replace pods in place, the problem starts now. The deadline for other components
    # starts after that.
    if next_step := _describe_replacement_in_place("the pod stays unschedulable", criteria):
        return make_resolvable_problem("Unschedulable", f"{summary} {next_step}", criteria.deadlines.now)
    return make_resolvable_problem("Unschedulable", f"{summary} {_advise_on_nodes(message)}", since)


def _describe_replacement_in_place(cause: str, criteria: ProblemCriteria) -> str | None:
    """Return sentences about the replacement in place that follows if `cause` lasts.

    Return None if the rollout waits.
    """
    seconds = criteria.room.in_place_after
    if seconds is None:
        return None
    return (
        f"If {cause} for {seconds} s (spec.rollout.surgeTimeoutSeconds), pods are replaced in place. To wait for room "
        "instead, set spec.rollout.type to Surge."
    )


def _advise_on_nodes(message: str) -> str:
    """Return a sentence about how to give the scheduler a suitable node."""
    advice = "; ".join(_node_remedies(message) or [_FREE])
    return f"{advice[0].upper()}{advice[1:]}."


_FREE = "free or add cards and memory, or lower spec.replicas"


def _node_remedies(message: str) -> list[str]:
    """Return the remedies for the reasons in the scheduler's message that concern nodes."""
    remedies = []
    if "affinity/selector" in message:
        remedies.append("change spec.pod.nodeSelector or affinity, or label a node (`kubectl get nodes --show-labels`)")
    if "untolerated taint" in message:
        remedies.append("tolerate the taint in spec.pod.tolerations, or remove the taint from a node")
    if "Insufficient" in message:
        remedies.append(_FREE)
    return remedies


def _scheduling_gate_problem(pod: PodView, since: datetime | None, criteria: ProblemCriteria) -> Problem:
    summary = f"Pod {pod.name} is held by {describe_delaying_scheduling_gates(pod)} and has no node yet."
    # Old pods hold the quota that the new pod needs. Without this advice, the upgrade would wait forever.
    if criteria.room.remedy:
        return make_resolvable_problem("UpgradeBlocked", f"{summary} {criteria.room.remedy}", since)
    advice = (
        "The pod starts after the quota system that set the gate, such as Kueue, admits the pod. `kubectl describe "
        f"pod {pod.name}` shows the events of the pod."
    )
    next_step = _describe_replacement_in_place("the gate stays", criteria)
    # Waiting for quota has no deadline. The problem therefore starts now, so that problems with a deadline precede it.
    return make_resolvable_problem(SCHEDULING_GATED, f"{summary} {next_step or advice}", criteria.deadlines.now)


def _preparation_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    message = why_preparation_is_delayed(pod, criteria.deadlines)
    if message is None:
        return None
    return make_resolvable_problem(
        "PodNotPrepared", f"{message}{advise_on_claim_mounts(criteria)}", preparation_delayed_since(pod)
    )


def _worker_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the problem that prevents a worker of the group from starting.

    After the start, the leader's report covers the progress of its workers.
    """
    problems = (
        side_container_start_problem(worker, criteria)
        or side_container_exit_problem(worker, criteria)
        or container_start_problem(worker, criteria)
        or _preparation_problem(worker, criteria)
        for worker in pod.workers
        if worker.is_active
    )
    return next((problem for problem in problems if problem), None)


def _stall_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    report, stall_seconds = pod.report, criteria.stall_seconds
    if report is None or pod.report_received_at is None or report.phase.is_settled:
        return None
    if report.since_progress_seconds <= stall_seconds:
        # Only the runtime measures progress. The operator's clock only determines the time of the next check.
        age = (criteria.deadlines.now - pod.report_received_at).total_seconds()
        remaining_seconds = stall_seconds - report.since_progress_seconds - age
        criteria.deadlines.schedule_requeue(remaining_seconds if remaining_seconds > 0 else REPORT_SECONDS)
        return None
    details = f"in pod {pod.name} for more than {stall_seconds} s, in {describe_activity_at_termination(report)}."
    return Problem(
        "WarmupStalled",
        f"No progress {details} The container is restarted. If this repeats, read its log. Raise "
        "spec.warmup.stallTimeoutSeconds if a step takes longer.",
        f"No progress {details} Raise spec.warmup.stallTimeoutSeconds if a step takes longer.",
    )


def _unreachable_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    """Return the problem of a pod that cannot reach the thresholds, before the pod captures its graphs."""
    report = pod.report
    if report is None or report.capturable is None or report.phase is Phase.SERVING:
        return None
    reason = why_thresholds_unreachable(
        report.capturable, report.prompt.planned, report.decode.planned, criteria.readiness
    )
    return Problem("ThresholdsUnreachable", f"Pod {pod.name} cannot receive traffic: {reason}") if reason else None


def _shortfall_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    if pod.report is None or pod.report.phase is not Phase.SERVING:
        return None
    shortfall = explain_threshold_shortfall(pod.report, criteria.readiness)
    if shortfall is None:
        return None
    reason, message = shortfall
    remedy = "Raise spec.warmup.graphMemoryPercent, plan fewer buckets, lower the percentages in spec.readiness,"
    if reason == WARMUP_INCOMPLETE:
        remedy = "Read the log of the pod, change the limits in spec.warmup, plan other buckets,"
    explanation = f"no traffic: {message} {remedy} or set spec.readiness.onShortfall to ServeAndWarn."
    return Problem(reason, f"Pod {pod.name} receives {explanation}", f"Pod {pod.name} received {explanation}")


def _recompile_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    max_recompiles, report = criteria.canary.max_recompiles, pod.report
    if report is None or not criteria.is_observed:
        return None
    if report.warmup_skipped or report.recompiles_since_ready <= max_recompiles:
        return None
    # The message names only the most frequent shape. `status.recompiles` lists more shapes.
    worst = max(report.cold_shapes, key=lambda cold: cold.count, default=None)
    suffix = f", most often {worst.phase} {worst.shape}" if worst else ""
    change = "Add buckets for these shapes to spec.bucketing."
    advice = ADD_SIZES if has_only_vision_recompiles(report) else change
    return Problem(
        "TooManyRecompiles",
        f"Requests waited for {report.recompiles_since_ready} compiles in pod {pod.name}{suffix}, but "
        f"spec.rollout.canary.maxRecompiles is {max_recompiles}. {advice}",
    )


def _error_rate_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    max_percent = criteria.canary.max_error_percent
    requests = pod.report.requests if pod.report and criteria.is_observed else None
    if requests is None or requests.failed < FEWEST_ERRORS:
        return None
    if requests.failed * 100 <= requests.answered * max_percent:
        return None
    message = (
        f"{requests.failed} of {requests.answered} answers of pod {pod.name} failed, but "
        f"spec.rollout.canary.maxErrorPercent is {max_percent}."
    )
    return Problem("TooManyErrors", f"{message} Read its log with `kubectl logs {pod.name}`.", message)


def _forecast_problem(pod: PodView, criteria: ProblemCriteria) -> Problem | None:
    # Check only a plan that differs from the plan of the previous revision. With the same plan, a rollback would not
    # help.
    if pod.report is None or not criteria.is_observed or not criteria.has_learned_plan:
        return None
    max_padding_percent = criteria.canary.max_padding_percent
    reason = why_learned_plan_missed_forecast(pod.report, max_padding_percent, criteria.resource)
    return Problem("ForecastMissed", f"In pod {pod.name}, {reason}") if reason else None


def _pod_creation_problem(replica_set: Manifest, criteria: ProblemCriteria) -> Problem | None:
    reason = (
        None
        if criteria.room.to_come
        else why_creation_is_delayed(replica_set, UNSCHEDULABLE_SECONDS, criteria.deadlines)
    )
    if reason is None:
        return None
    since = creation_delayed_since(replica_set)
    message = f"ReplicaSet {replica_set['metadata']['name']} cannot create pods: {format_sentence(reason)}"
    # Give this advice only for a quota, which has room after old pods are removed. An admission rule rejects the pod in
    # any case.
    if criteria.room.remedy and "quota" in reason:
        return make_resolvable_problem("UpgradeBlocked", f"{message} {criteria.room.remedy}", since)
    if next_step := _describe_replacement_in_place("the ReplicaSet cannot create pods", criteria):
        return make_resolvable_problem("PodsRefused", f"{message} {next_step}", criteria.deadlines.now)
    return make_resolvable_problem(
        "PodsRefused", f"{message} Check the quota and the admission rules of this namespace.", since
    )


# The checks follow the life of a pod. Each check runs only if all previous checks found no problem.
_CHECKS = Checks(
    _reported_start_problem,
    side_container_start_problem,
    side_container_exit_problem,
    container_start_problem,
    crash_loop_problem,
    _scheduling_problem,
    _preparation_problem,
    _worker_problem,
    _stall_problem,
    _last_failure_problem,
    _unreachable_problem,
    _shortfall_problem,
    _recompile_problem,
    _error_rate_problem,
    _forecast_problem,
)


MIN_FAILED_PODS = 2
"""The minimum number of failed pods before they are a problem."""


def consecutive_failed_pods(pods: Iterable[PodView], revision: str) -> list[PodView]:
    """Return the pods of a revision that failed before they were ready, oldest first.

    If a pod of the revision is ready, only failures after that time are returned.
    """
    revision_pods = [pod for pod in pods if pod.revision == revision]
    # A ready pod proves that the revision works. Therefore ignore failures before the last pod became ready.
    ready_since = max(
        (since for pod in revision_pods if pod.is_ready and (since := pod.conditions["Ready"].since)), default=None
    )
    failures = ((pod.ended_at, pod) for pod in revision_pods if pod.ended_at and not pod.has_gate_condition)
    return [pod for ended_at, pod in sorted(failures, key=_sort_key) if ready_since is None or ended_at > ready_since]


def failed_pods_problem(pods: Iterable[PodView], revision: str) -> Problem | None:
    """Return the problem of a revision whose pods fail, with the number of pods and the reason of the last failure."""
    failed_pods = consecutive_failed_pods(pods, revision)
    if len(failed_pods) < MIN_FAILED_PODS:
        return None
    last = failed_pods[-1]
    return make_resolvable_problem(
        "PodsFail",
        f"{len(failed_pods)} pods of revision {revision} ended before they served, most recently {last.name}: "
        f"{last.end_message} Check the node of the pod and spec.pod.resources. `kubectl describe pod {last.name}` "
        "shows more.",
        failed_pods[0].ended_at,
    )


def _sort_key(entry: tuple[datetime, PodView]) -> tuple[datetime, str]:
    ended_at, pod = entry
    return ended_at, pod.name
