"""What goes into a reconcile: a frozen snapshot of a resource and what belongs to it, and the installation's defaults.

Decisions read nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.network import Client
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_runtime.contract.report import BucketPhase, WarmupReport

Manifest = Mapping[str, Any]
"""A Kubernetes object as the API server writes it."""


@dataclass(frozen=True)
class PodReport:
    """The last word of a pod: a report that could be read, or the reason why it was ignored.

    `container_id` is the runtime container's id in the pod status when the report was fetched: a report never
    speaks for another container. `received` is our clock. Of `report` it is enough what decisive() leaves.
    """

    container_id: str
    received: datetime
    report: WarmupReport | None = None
    ignored: str | None = None


def decisive(report: WarmupReport) -> WarmupReport:
    """The report without what no decision and no status reads: whole, those of 1,000 pods may take a gigabyte."""
    firsts = [next((each for each in report.skipped if each.phase is phase), None) for phase in BucketPhase]
    vision, seen = report.vision, report.served.vision
    served = {"buckets": (), "vision": seen and seen.model_copy(update={"cold": ()})}
    return report.model_copy(
        update={
            "skipped": tuple(filter(None, firsts)),
            "vision": vision and vision.model_copy(update={"skipped": vision.skipped[:1]}),
            "served": report.served.model_copy(update=served),
            "warnings": report.warnings[-1:],
            "engine_arguments": (),
        }
    )


class TextKey(NamedTuple):
    """Name and key of a ConfigMap in the namespace of the resource."""

    name: str
    key: str


@dataclass(frozen=True)
class Observed:
    """What the watches and polls have seen. Absent children are simply not there; nothing is None but status.

    `resource` is the whole GaudiInference; lists hold only objects that carry our labels and are owned by it.
    `reports` is keyed by pod UID; `texts` are those that the spec names (core/texts.py). `now` is passed in, so that
    decisions have no clock. `status_written` is when our last status write of this resource went out, by our clock;
    None when this process has made none: progress numbers move at most every 2 s. `status_held` is since when there is
    another one to show, None when there was none in the last reconcile. Of a replica over several nodes
    `pods` has the leader and `workers` the others; `groups_served` is whether this cluster knows LeaderWorkerSets.
    `classes` are all GaudiInferenceClasses; the labels of the namespace are there where a class selects by them.
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
    reports: Mapping[str, PodReport] = field(default_factory=dict)
    texts: Mapping[TextKey, str] = field(default_factory=dict)
    now: datetime = datetime.min
    status_written: datetime | None = None
    status_held: datetime | None = None
    groups_served: bool = False
    classes: tuple[Manifest, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def pod_count(self) -> int:
        """How many pods all replicas have, over several nodes too."""
        return len(self.pods) + len(self.workers)

    @property
    def children(self) -> tuple[Manifest, ...]:
        """What we apply and own, but for PVCs: those are compared by themselves."""
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
        """What makes pods: a ReplicaSet or a LeaderWorkerSet for each revision."""
        return (*self.replica_sets, *self.leader_worker_sets)


@dataclass(frozen=True)
class AllowedHostPath:
    """Folders of nodes that pods may mount: `prefix` and all below it, in `namespaces`, or in all where it names none.

    `groups` are those that such pods may have besides their own fixed one.
    """

    prefix: str
    namespaces: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class InstallationDefaults:
    """Values that a resource may leave out, and what the installation allows."""

    runtime_image: str
    hpu_image: str
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[str, ...] = ()
    allow_host_path: tuple[AllowedHostPath, ...] = ()
    allow_simulation: bool = False
    operator_namespace: str = "gaudi-system"
    monitoring_from: tuple[Client, ...] = ()
    gateways_from: tuple[Client, ...] = ()
    tracing: Tracing | None = None
    controller: str = DEFAULT_CONTROLLER

    def __hash__(self) -> int:
        """Return a hash of fields that have one: the labels of clients are dictionaries."""
        return hash((self.runtime_image, self.hpu_image, self.controller))
