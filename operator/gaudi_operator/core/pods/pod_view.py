"""The view of a pod: its manifest and its report as parsed values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gaudi_operator.core.names import (
    CONTAINER,
    DELETION_COST_ANNOTATION,
    GATE,
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    GROUP_SIZE_ANNOTATION,
    PLAN_HASH_ANNOTATION,
    REVISION_LABEL,
)
from gaudi_operator.core.observed import Manifest, Observed, ObservedReport
from gaudi_operator.core.text_formats import parse_int32_text, parse_timestamp_text
from gaudi_runtime.contract.failures import EXTERNAL_REASONS
from gaudi_runtime.contract.report import NO_PLAN, Phase, WarmupReport

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases of a pod whose containers will not run again."""


OUT_OF_MEMORY = "OOMKilled"
"""The kubelet's reason for a container that the kernel killed for memory."""


@dataclass(frozen=True)
class ContainerExitView:
    """The termination of a container, as the kubelet reports it. `message` is the container's last output line."""

    reason: str
    exit_code: int
    message: str
    began_at: datetime | None
    ended_at: datetime | None

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel killed the container because memory ran out (`OOMKilled`)."""
        return self.reason == OUT_OF_MEMORY

    @property
    def external_reason(self) -> str | None:
        """The reason in the runtime's termination message if its cause is outside the revision, such as `DiskFull`."""
        reason = self.message.partition(":")[0]
        return reason if reason in EXTERNAL_REASONS else None

    def __str__(self) -> str:
        summary = f"{self.reason}, exit code {self.exit_code}"
        if self.out_of_memory:
            # The kernel killed the container, so the last log line does not show the cause.
            last_line = f"; last log line: {self.message}" if self.message else ""
            return f"{summary}: the kernel killed the container because memory ran out{last_line}"
        return f"{summary}: {self.message}" if self.message else summary


@dataclass(frozen=True)
class ContainerStateView:
    """The state of a container as the kubelet last reported it.

    `id` is empty before the first start. `last_exit` is the termination of this container or of the previous container.
    """

    id: str
    running: bool
    waiting_reason: str | None = None
    waiting_message: str = ""
    last_exit: ContainerExitView | None = None
    restarts: int = 0


@dataclass(frozen=True)
class SideContainer:
    """An init container, or a sidecar if `is_sidecar` is True. A sidecar runs concurrently with the runtime."""

    name: str
    is_sidecar: bool
    container: ContainerStateView

    @property
    def is_done(self) -> bool:
        """Whether the container has completed successfully and will not restart."""
        last_exit = self.container.last_exit
        ended = not self.container.running and self.container.waiting_reason is None
        return not self.is_sidecar and ended and last_exit is not None and last_exit.exit_code == 0


@dataclass(frozen=True)
class PodCondition:
    """A condition of a pod."""

    is_true: bool
    reason: str
    message: str
    since: datetime | None


@dataclass(frozen=True)
class PodView:
    """One pod with all values that decisions read.

    `report` is set only if it belongs to the running container and to the plan of the pod. `container` is the runtime
    container. `side_containers` are the other containers, which matter only if they prevent the runtime from serving.
    `created_at` is the creation time, and `deletion_time` is the end of a terminating pod's grace period. `end_message`
    is the reason why a failed pod ended, `ended_reason` is the reason that the node reports, if any, and `ended_at` is
    the best known time. A group of `group_size` pods is represented by its leader: `workers` are the other pods, and
    `ordinal` is the number of the group. `scheduling_gates` contains the names of the gates.
    """

    name: str
    uid: str
    revision: str
    phase: str
    terminating: bool
    deletion_time: datetime | None
    conditions: Mapping[str, PodCondition]
    container: ContainerStateView | None
    report: WarmupReport | None = None
    report_received_at: datetime | None = None
    ignored_reason: str | None = None
    deletion_cost: int = 0
    end_message: str | None = None
    ended_at: datetime | None = None
    ended_reason: str | None = None
    created_at: datetime | None = None
    group_size: int = 1
    ordinal: int | None = None
    workers: tuple["PodView", ...] = ()
    side_containers: tuple[SideContainer, ...] = ()
    scheduling_gates: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether the pod counts as a replica. Terminating and ended pods do not count."""
        return not self.terminating and self.phase not in ENDED

    @property
    def is_scheduled(self) -> bool:
        """Whether the pod and all pods of its group have nodes."""
        condition = self.conditions.get("PodScheduled")
        has_node = self.container is not None or (condition is not None and condition.is_true)
        return has_node and len(self.workers) + 1 >= self.group_size and all(pod.is_scheduled for pod in self.workers)

    @property
    def container_awaited_since(self) -> datetime | None:
        """The time since which the pod waits for its runtime container.

        At this time the pod had a node and a sandbox, and its previous container had ended.
        """
        conditions = (self.conditions.get(kind) for kind in ("PodScheduled", "PodReadyToStartContainers"))
        last_end = self.container.last_exit.ended_at if self.container and self.container.last_exit else None
        transitions = (condition.since for condition in conditions if condition and condition.is_true)
        return max(filter(None, (self.created_at, last_end, *transitions)), default=None)

    @property
    def starting_since(self) -> datetime | None:
        """The time since which the pod tries to serve: its gate closed, or it got a node. None while the gate is open.

        Restarts of the container do not change this time.
        """
        if self.gate is not None:
            return None if self.gate.is_true else self.gate.since
        scheduled = self.conditions.get("PodScheduled")
        return scheduled.since if scheduled else self.created_at

    @property
    def gate(self) -> PodCondition | None:
        """The condition of the readiness gate, or None before the first judgement."""
        return self.conditions.get(GATE)

    @property
    def is_gate_open(self) -> bool:
        """Whether the readiness gate is open."""
        return self.gate is not None and self.gate.is_true

    @property
    def open_since(self) -> datetime | None:
        """The time at which the readiness gate opened, or None while it is closed."""
        return self.gate.since if self.gate and self.gate.is_true else None

    @property
    def is_ready(self) -> bool:
        """Whether the pod receives traffic: the kubelet reports it as ready, and its gate is still open."""
        return self.is_active and self.is_gate_open and "Ready" in self.conditions and self.conditions["Ready"].is_true

    @property
    def has_gate_condition(self) -> bool:
        """Whether the gate of the pod was ever written. A pod that was ready once usually recovers."""
        return self.gate is not None


def read_pod_views(observed: Observed) -> tuple[PodView, ...]:
    """Return one view per replica, sorted by pod name. The view of a group's leader includes its workers."""
    views = [
        _with_workers(pod, _read_pod(pod, _find_report(pod, observed), observed.now), observed) for pod in observed.pods
    ]
    return tuple(sorted(views, key=lambda view: view.name))


def _find_report(pod: Manifest, observed: Observed) -> ObservedReport | None:
    return observed.reports.get(pod["metadata"]["uid"])


def _with_workers(leader: Manifest, view: PodView, observed: Observed) -> PodView:
    """Return the view of a leader with its workers. A group counts as unscheduled until all its pods have nodes."""
    group_key = _group_key(leader)
    if group_key is None:
        return view
    worker_views = (
        _read_pod(worker, None, observed.now) for worker in observed.workers if _group_key(worker) == group_key
    )
    workers = tuple(sorted(worker_views, key=lambda worker: worker.name))
    size = parse_int32_text((leader["metadata"].get("annotations") or {}).get(GROUP_SIZE_ANNOTATION)) or 1
    # The leader is scheduled before its workers. Without this check, the group would look scheduled while a worker has
    # no node.
    false_conditions = [
        condition for pod in workers if (condition := pod.conditions.get("PodScheduled")) and not condition.is_true
    ]
    conditions = {**view.conditions, **({"PodScheduled": false_conditions[0]} if false_conditions else {})}
    gates = view.scheduling_gates or next((pod.scheduling_gates for pod in workers if pod.scheduling_gates), ())
    return replace(
        view, group_size=size, ordinal=group_key[1], workers=workers, conditions=conditions, scheduling_gates=gates
    )


def _group_key(pod: Manifest) -> tuple[str, int] | None:
    """Return (name of the LeaderWorkerSet, number of the group) of a pod, or None if the pod belongs to no group."""
    labels = pod["metadata"].get("labels") or {}
    number = parse_int32_text(labels.get(GROUP_INDEX_LABEL))
    return None if GROUP_NAME_LABEL not in labels or number is None else (labels[GROUP_NAME_LABEL], number)


def _read_pod(pod: Manifest, pod_report: ObservedReport | None, now: datetime) -> PodView:
    metadata, status = pod["metadata"], pod.get("status") or {}
    container = _runtime_container(status)
    annotations = metadata.get("annotations") or {}
    failed = status.get("phase") == "Failed"
    plan_hash = annotations.get(PLAN_HASH_ANNOTATION, "")
    ignored_reason = None if pod_report is None else _why_ignored(pod_report, container, plan_hash)
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=(metadata.get("labels") or {}).get(REVISION_LABEL, ""),
        phase=status.get("phase", "Pending"),
        terminating="deletionTimestamp" in metadata,
        deletion_time=parse_timestamp_text(metadata.get("deletionTimestamp")),
        conditions={condition["type"]: read_condition(condition, now) for condition in status.get("conditions") or ()},
        container=container,
        report=pod_report.report if pod_report is not None and ignored_reason is None else None,
        report_received_at=pod_report.received_at if pod_report is not None else None,
        ignored_reason=ignored_reason,
        deletion_cost=parse_int32_text(annotations.get(DELETION_COST_ANNOTATION)) or 0,
        end_message=_why_ended(status, container) if failed else None,
        ended_at=_end_time(pod) if failed else None,
        ended_reason=(status.get("reason") or None) if failed else None,
        created_at=parse_timestamp_text(metadata.get("creationTimestamp")),
        side_containers=_side_containers(pod),
        scheduling_gates=tuple(gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ()),
    )


def _why_ignored(pod_report: ObservedReport, container: ContainerStateView | None, plan_hash: str) -> str | None:
    """Return the reason why a report is not used for the pod, or None if it is used."""
    if pod_report.report is None:
        return pod_report.ignored_reason or "Its report could not be read."
    # A report that was fetched during a container restart may come from the previous container.
    if container is None or not container.running or pod_report.container_id != container.id:
        return "Its report is from a container that no longer runs."
    # A runtime that rejects its configuration reports no plan hash. Accept its report, because the failure names the
    # fault.
    has_no_plan = pod_report.report.plan_hash == NO_PLAN and pod_report.report.phase is Phase.FAILED
    if pod_report.report.plan_hash != plan_hash and not has_no_plan:
        return (
            f"Its report is for plan {pod_report.report.plan_hash[:10]}, but the pod was created for plan "
            f"{plan_hash[:10]}: its image may have another release of the runtime."
        )
    return None


def _why_ended(status: Mapping[str, Any], container: ContainerStateView | None) -> str:
    """Return the kubelet's reason for the end of a pod, such as "Evicted: The node was low on resource: memory."."""
    node_message = ": ".join(" ".join(part.split()) for part in (status.get("reason"), status.get("message")) if part)
    last_exit = container.last_exit if container else None
    text = node_message or (str(last_exit) if last_exit else "its node reported no reason")
    return f"{text.rstrip('.')}."


def _end_time(pod: Manifest) -> datetime | None:
    status = pod["status"]
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    finish_times = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    transition_times = [condition.get("lastTransitionTime") for condition in status.get("conditions") or ()]
    moments = (*finish_times, *transition_times, status.get("startTime"), pod["metadata"].get("creationTimestamp"))
    return max(filter(None, map(parse_timestamp_text, moments)), default=None)


def read_condition(condition: Mapping[str, Any], now: datetime) -> PodCondition:
    """Return a condition of a pod's status as a parsed value.

    If the time of the gate is in the future, another replica of the operator wrote it with a clock that was ahead. This
    time would delay gates and canaries, so it is read as unknown.
    """
    since = parse_timestamp_text(condition.get("lastTransitionTime"))
    is_wrong = condition["type"] == GATE and since is not None and since > now
    return PodCondition(
        is_true=condition.get("status") == "True",
        reason=condition.get("reason") or "",
        message=condition.get("message") or "",
        since=None if is_wrong else since,
    )


def _runtime_container(status: Mapping[str, Any]) -> ContainerStateView | None:
    containers = (container for container in status.get("containerStatuses") or () if container["name"] == CONTAINER)
    return next(map(_read_container, containers), None)


def _side_containers(pod: Manifest) -> tuple[SideContainer, ...]:
    init_containers = (pod.get("spec") or {}).get("initContainers") or ()
    sidecars = {container["name"] for container in init_containers if container.get("restartPolicy") == "Always"}
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return tuple(
        SideContainer(status["name"], status["name"] in sidecars, _read_container(status)) for status in statuses
    )


def _read_container(status: Mapping[str, Any]) -> ContainerStateView:
    # Prefer the current state of a terminated container. It has more details than the last state.
    state = status.get("state") or {}
    waiting = state.get("waiting") or {}
    termination = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    return ContainerStateView(
        id=status.get("containerID") or "",
        running="running" in state,
        waiting_reason=waiting.get("reason"),
        waiting_message=waiting.get("message") or "",
        last_exit=_read_exit(termination) if termination else None,
        restarts=max(0, status.get("restartCount") or 0),
    )


def _read_exit(terminated: Mapping[str, Any]) -> ContainerExitView:
    lines = (terminated.get("message") or "").strip().splitlines()
    return ContainerExitView(
        reason=terminated.get("reason") or "Error",
        exit_code=terminated.get("exitCode") or 0,
        message=lines[-1] if lines else "",
        began_at=parse_timestamp_text(terminated.get("startedAt")),
        ended_at=parse_timestamp_text(terminated.get("finishedAt")),
    )
