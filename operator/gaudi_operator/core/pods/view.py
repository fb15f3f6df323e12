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
from gaudi_operator.core.observed import Manifest, Observed, PodReport
from gaudi_operator.core.text_formats import parse_int32, parse_timestamp
from gaudi_runtime.contract.report import NO_PLAN, Phase, WarmupReport

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases of a pod whose containers will not run again."""


OUT_OF_MEMORY = "OOMKilled"
"""The kubelet's reason for a container that the kernel killed for memory."""


@dataclass(frozen=True)
class ContainerExit:
    """The termination of a container, as the kubelet reports it. `message` is the container's last output line."""

    reason: str
    exit_code: int
    message: str
    began: datetime | None
    ended: datetime | None

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel killed the container because memory ran out (`OOMKilled`)."""
        return self.reason == OUT_OF_MEMORY

    def __str__(self) -> str:
        words = f"{self.reason}, exit code {self.exit_code}"
        if self.out_of_memory:
            # The kernel killed the container, so the last log line does not show the cause.
            last = f"; last log line: {self.message}" if self.message else ""
            return f"{words}: the kernel killed the container because memory ran out{last}"
        return f"{words}: {self.message}" if self.message else words


@dataclass(frozen=True)
class ContainerState:
    """The state of a container as the kubelet last reported it.

    `id` is empty before the first start. `last_exit` is the termination of this container or of the previous container.
    """

    id: str
    running: bool
    waiting_reason: str | None = None
    waiting_message: str = ""
    last_exit: ContainerExit | None = None
    restarts: int = 0


@dataclass(frozen=True)
class SideContainer:
    """An init container or `sidecar` in the view of a pod. A sidecar runs concurrently with the runtime."""

    name: str
    sidecar: bool
    container: ContainerState

    @property
    def is_done(self) -> bool:
        """Whether the container has completed successfully and will not restart."""
        last = self.container.last_exit
        ended = not self.container.running and self.container.waiting_reason is None
        return not self.sidecar and ended and last is not None and last.exit_code == 0


@dataclass(frozen=True)
class PodCondition:
    """A condition of a pod."""

    true: bool
    reason: str
    message: str
    since: datetime | None


@dataclass(frozen=True)
class PodView:
    """One pod with all values that decisions read.

    `report` is set only if it belongs to the running container and to the plan of the pod. `container` is the runtime
    container. `side_containers` are the other containers, which matter only if they prevent the runtime from serving.
    `created` is the creation time, and `gone_by` is the end of a terminating pod's grace period. `ended` is the reason
    why a failed pod ended, `ended_reason` is the reason that the node reports, if any, and `ended_at` is the best known
    time. A group of `size` pods is represented by its leader: `workers` are the other pods, and `ordinal` is the number
    of the group. `scheduling_gates` contains the names of the gates.
    """

    name: str
    uid: str
    revision: str
    phase: str
    terminating: bool
    gone_by: datetime | None
    conditions: Mapping[str, PodCondition]
    container: ContainerState | None
    report: WarmupReport | None = None
    received: datetime | None = None
    report_ignored: str | None = None
    deletion_cost: int = 0
    ended: str | None = None
    ended_at: datetime | None = None
    ended_reason: str | None = None
    created: datetime | None = None
    size: int = 1
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
        scheduled = self.conditions.get("PodScheduled")
        here = self.container is not None or (scheduled is not None and scheduled.true)
        return here and len(self.workers) + 1 >= self.size and all(worker.is_scheduled for worker in self.workers)

    @property
    def container_awaited_since(self) -> datetime | None:
        """The time since which the pod waits for its runtime container.

        At this time the pod had a node and a sandbox, and its previous container had ended.
        """
        met = (self.conditions.get(kind) for kind in ("PodScheduled", "PodReadyToStartContainers"))
        last = self.container.last_exit.ended if self.container and self.container.last_exit else None
        moments = (self.created, last, *(each.since for each in met if each and each.true))
        return max(filter(None, moments), default=None)

    @property
    def gate(self) -> PodCondition | None:
        """The condition of the readiness gate, or None before the first judgement."""
        return self.conditions.get(GATE)

    @property
    def is_gate_open(self) -> bool:
        """Whether the readiness gate is open."""
        return self.gate is not None and self.gate.true

    @property
    def open_since(self) -> datetime | None:
        """The time at which the readiness gate opened, or None while it is closed."""
        return self.gate.since if self.gate and self.gate.true else None

    @property
    def is_ready(self) -> bool:
        """Whether the pod receives traffic: the kubelet reports it as ready, and its gate is still open."""
        return self.is_active and self.is_gate_open and "Ready" in self.conditions and self.conditions["Ready"].true

    @property
    def has_gate_condition(self) -> bool:
        """Whether the gate of the pod was ever written. A pod that was ready once usually recovers."""
        return self.gate is not None


def read_pods(observed: Observed) -> tuple[PodView, ...]:
    """Return one view per replica, sorted by pod name. The view of a group's leader includes its workers."""
    views = [_with_workers(pod, _read_pod(pod, _find_report(pod, observed)), observed) for pod in observed.pods]
    return tuple(sorted(views, key=lambda view: view.name))


def _find_report(pod: Manifest, observed: Observed) -> PodReport | None:
    return observed.reports.get(pod["metadata"]["uid"])


def _with_workers(leader: Manifest, view: PodView, observed: Observed) -> PodView:
    """Return the view of a leader with its workers. A group counts as unscheduled until all its pods have nodes."""
    group = _group_key(leader)
    if group is None:
        return view
    mine = (_read_pod(worker, None) for worker in observed.workers if _group_key(worker) == group)
    workers = tuple(sorted(mine, key=lambda worker: worker.name))
    size = parse_int32((leader["metadata"].get("annotations") or {}).get(GROUP_SIZE_ANNOTATION)) or 1
    # The leader is scheduled before its workers. Without this check, the group would look scheduled while a worker has
    # no node.
    unplaced = [each for worker in workers if (each := worker.conditions.get("PodScheduled")) and not each.true]
    conditions = {**view.conditions, **({"PodScheduled": unplaced[0]} if unplaced else {})}
    gates = view.scheduling_gates or next((each.scheduling_gates for each in workers if each.scheduling_gates), ())
    return replace(view, size=size, ordinal=group[1], workers=workers, conditions=conditions, scheduling_gates=gates)


def _group_key(pod: Manifest) -> tuple[str, int] | None:
    """Return (name of the LeaderWorkerSet, number of the group) of a pod, or None if the pod belongs to no group."""
    labels = pod["metadata"].get("labels") or {}
    number = parse_int32(labels.get(GROUP_INDEX_LABEL))
    return None if GROUP_NAME_LABEL not in labels or number is None else (labels[GROUP_NAME_LABEL], number)


def _read_pod(pod: Manifest, word: PodReport | None) -> PodView:
    metadata, status = pod["metadata"], pod.get("status") or {}
    container = _runtime_container(status)
    annotations = metadata.get("annotations") or {}
    failed = status.get("phase") == "Failed"
    hashed = annotations.get(PLAN_HASH_ANNOTATION, "")
    ignored = None if word is None else _why_ignored(word, container, hashed)
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=(metadata.get("labels") or {}).get(REVISION_LABEL, ""),
        phase=status.get("phase", "Pending"),
        terminating="deletionTimestamp" in metadata,
        gone_by=parse_timestamp(metadata.get("deletionTimestamp")),
        conditions={each["type"]: read_condition(each) for each in status.get("conditions") or ()},
        container=container,
        report=word.report if word is not None and ignored is None else None,
        received=word.received if word is not None else None,
        report_ignored=ignored,
        deletion_cost=parse_int32(annotations.get(DELETION_COST_ANNOTATION)) or 0,
        ended=_why_ended(status, container) if failed else None,
        ended_at=_end_time(pod) if failed else None,
        ended_reason=(status.get("reason") or None) if failed else None,
        created=parse_timestamp(metadata.get("creationTimestamp")),
        side_containers=_side_containers(pod),
        scheduling_gates=tuple(each["name"] for each in (pod.get("spec") or {}).get("schedulingGates") or ()),
    )


def _why_ignored(word: PodReport, container: ContainerState | None, plan_hash: str) -> str | None:
    """Return the reason why a report is not used for the pod, or None if it is used."""
    if word.report is None:
        return word.ignored or "Its report could not be read."
    # A report that was fetched during a container restart may come from the previous container.
    if container is None or not container.running or word.container_id != container.id:
        return "Its report is from a container that no longer runs."
    # A runtime that rejects its configuration reports no plan hash. Accept its report, because the failure names the
    # fault.
    has_no_plan = word.report.plan_hash == NO_PLAN and word.report.phase is Phase.FAILED
    if word.report.plan_hash != plan_hash and not has_no_plan:
        return (
            f"Its report is for plan {word.report.plan_hash[:10]}, but the pod was created for plan {plan_hash[:10]}: "
            "its image may have another release of the runtime."
        )
    return None


def _why_ended(status: Mapping[str, Any], container: ContainerState | None) -> str:
    """Return the kubelet's reason for the end of a pod, such as "Evicted: The node was low on resource: memory."."""
    said = ": ".join(" ".join(part.split()) for part in (status.get("reason"), status.get("message")) if part)
    exit_ = container.last_exit if container else None
    text = said or (str(exit_) if exit_ else "its node reported no reason")
    return f"{text.rstrip('.')}."


def _end_time(pod: Manifest) -> datetime | None:
    status = pod["status"]
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    finished = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    turned = [each.get("lastTransitionTime") for each in status.get("conditions") or ()]
    moments = (*finished, *turned, status.get("startTime"), pod["metadata"].get("creationTimestamp"))
    return max(filter(None, map(parse_timestamp, moments)), default=None)


def read_condition(condition: Mapping[str, Any]) -> PodCondition:
    """Return a condition of a pod's status as a parsed value."""
    return PodCondition(
        true=condition.get("status") == "True",
        reason=condition.get("reason") or "",
        message=condition.get("message") or "",
        since=parse_timestamp(condition.get("lastTransitionTime")),
    )


def _runtime_container(status: Mapping[str, Any]) -> ContainerState | None:
    found = (each for each in status.get("containerStatuses") or () if each["name"] == CONTAINER)
    return next(map(_read_container, found), None)


def _side_containers(pod: Manifest) -> tuple[SideContainer, ...]:
    asked = (pod.get("spec") or {}).get("initContainers") or ()
    sidecars = {each["name"] for each in asked if each.get("restartPolicy") == "Always"}
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return tuple(SideContainer(each["name"], each["name"] in sidecars, _read_container(each)) for each in statuses)


def _read_container(status: Mapping[str, Any]) -> ContainerState:
    # Prefer the current state of a terminated container. It has more details than the last state.
    state = status.get("state") or {}
    waiting = state.get("waiting") or {}
    last = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    return ContainerState(
        id=status.get("containerID") or "",
        running="running" in state,
        waiting_reason=waiting.get("reason"),
        waiting_message=waiting.get("message") or "",
        last_exit=_read_exit(last) if last else None,
        restarts=max(0, status.get("restartCount") or 0),
    )


def _read_exit(terminated: Mapping[str, Any]) -> ContainerExit:
    lines = (terminated.get("message") or "").strip().splitlines()
    return ContainerExit(
        reason=terminated.get("reason") or "Error",
        exit_code=terminated.get("exitCode") or 0,
        message=lines[-1] if lines else "",
        began=parse_timestamp(terminated.get("startedAt")),
        ended=parse_timestamp(terminated.get("finishedAt")),
    )
