"""The observed state of a reconcile: a frozen snapshot of a resource, its children and the reports of its pods.

Decisions read only this snapshot and the installation's defaults (installation.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gaudi_runtime.contract.report import BucketPhase, WarmupReport

Manifest = Mapping[str, Any]
"""A Kubernetes object as the API server returns it."""


@dataclass(frozen=True)
class ObservedReport:
    """The last observed report of a pod, or the reason why the report was ignored.

    `container_id` is the ID of the runtime container in the pod status at the time when the report was fetched. With
    this ID, a report is never used for another container. `received_at` is a time of the operator's clock. `report` may
    be trimmed by trim_observed_report().
    """

    container_id: str
    received_at: datetime
    report: WarmupReport | None = None
    ignored_reason: str | None = None


def trim_observed_report(report: WarmupReport) -> WarmupReport:
    """Return an observed report without the parts that decisions do not read.

    1,000 complete reports may need a gigabyte of memory.
    """
    skipped = [next((bucket for bucket in report.skipped if bucket.phase is phase), None) for phase in BucketPhase]
    vision, served_vision = report.vision, report.served.vision
    served = {"buckets": (), "vision": served_vision and served_vision.model_copy(update={"cold": ()})}
    return report.model_copy(
        update={
            "skipped": tuple(filter(None, skipped)),
            "vision": vision and vision.model_copy(update={"skipped": vision.skipped[:1]}),
            "served": report.served.model_copy(update=served),
            "warnings": report.warnings[-1:],
            "engine_arguments": (),
        }
    )


@dataclass(frozen=True)
class Observed:
    """The state of one resource that watches and polls have observed.

    `resource` is the whole GaudiInference. Lists contain only objects that carry the operator's labels and are
    owned by the resource. `reports` is keyed by pod UID. `now` is the time of the observation. Decisions use it
    instead of a clock. `status_written_at` is the time of the last status write of this process, or None before the
    first write. `status_held_since` is the time since which a newer status waits to be written, or None if no
    status is waiting. If a replica has several nodes, `pods` contains the leaders and `workers` contains the other
    pods. `groups_served` is True if the cluster has LeaderWorkerSets. `classes` contains all GaudiInferenceClasses.
    `namespace_labels` is filled only if a class selects namespaces by labels.
    """

    resource: Manifest
    revisions: tuple[Manifest, ...] = ()
    replica_sets: tuple[Manifest, ...] = ()
    leader_worker_sets: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    workers: tuple[Manifest, ...] = ()
    services: tuple[Manifest, ...] = ()
    config_maps: tuple[Manifest, ...] = ()
    service_accounts: tuple[Manifest, ...] = ()
    pod_disruption_budgets: tuple[Manifest, ...] = ()
    network_policies: tuple[Manifest, ...] = ()
    pvcs: tuple[Manifest, ...] = ()
    autoscalers: tuple[Manifest, ...] = ()
    reports: Mapping[str, ObservedReport] = field(default_factory=dict)
    now: datetime = datetime.min
    status_written_at: datetime | None = None
    status_held_since: datetime | None = None
    groups_served: bool = False
    classes: tuple[Manifest, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def children(self) -> tuple[Manifest, ...]:
        """The children that the operator owns and applies.

        PVCs are not included, because they are compared separately.
        """
        return (
            *self.revisions,
            *self.workloads,
            *self.services,
            *self.config_maps,
            *self.service_accounts,
            *self.pod_disruption_budgets,
            *self.network_policies,
            *self.autoscalers,
        )

    @property
    def workloads(self) -> tuple[Manifest, ...]:
        """The workloads that create pods: one ReplicaSet or LeaderWorkerSet per revision."""
        return (*self.replica_sets, *self.leader_worker_sets)
