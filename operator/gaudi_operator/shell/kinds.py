"""The kinds of objects that the operator reads and writes, and their API paths.

ServedKinds discovers which kinds the API server serves. The operator waits for its own kinds, and uses optional kinds
if they are installed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import KIND as CLASS_KIND
from gaudi_operator.api.v1alpha1.inference_class import PLURAL as CLASS_PLURAL
from gaudi_operator.api.v1alpha1.resource import API_VERSION, PLURAL
from gaudi_operator.api.v1alpha1.resource import KIND as RESOURCE_KIND
from gaudi_operator.core.children.manifests import GROUPS_API_VERSION, GROUPS_KIND
from gaudi_operator.core.names import GROUP_NAME_LABEL, NAME_LABEL
from gaudi_operator.errors import NotFoundError, OperatorError
from gaudi_operator.retry_delays import ExponentialRetryDelays
from gaudi_operator.shell.client import ClusterClient


@dataclass(frozen=True)
class Kind:
    """A kind of Kubernetes object. The label selector `selector` limits watches to the operator's objects."""

    api_version: str
    kind: str
    plural: str
    selector: str | None = NAME_LABEL
    namespaced: bool = True

    @property
    def group_version(self) -> tuple[str, str]:
        """The API group and the version. The group of the core API is an empty string."""
        group, _, version = self.api_version.rpartition("/")
        return group, version

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the API path of a collection, of an object, or of a subresource of an object."""
        root = "/apis/" if self.group_version[0] else "/api/"
        namespace_parts = ["namespaces", namespace] if namespace else []
        return root + "/".join(filter(None, (self.api_version, *namespace_parts, self.plural, name, subresource)))


# Watch resources and classes without a label selector, because users choose the labels of these objects.
RESOURCE = Kind(API_VERSION, RESOURCE_KIND, PLURAL, selector=None)
CLASS = Kind(API_VERSION, CLASS_KIND, CLASS_PLURAL, selector=None, namespaced=False)
REPLICA_SET = Kind("apps/v1", "ReplicaSet", "replicasets")
LEADER_WORKER_SET = Kind(GROUPS_API_VERSION, GROUPS_KIND, "leaderworkersets")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets", selector=GROUP_NAME_LABEL)
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
POD = Kind("v1", "Pod", "pods")
SERVICE = Kind("v1", "Service", "services")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
PVC = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
AUTOSCALER = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
EVENT = Kind("events.k8s.io/v1", "Event", "events")

CHILDREN = (
    REPLICA_SET,
    CONTROLLER_REVISION,
    POD,
    SERVICE,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    PVC,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    AUTOSCALER,
)
WATCHED = (RESOURCE, *CHILDREN)
"""The kinds that every cluster with the operator's CRD has."""
OPTIONAL = (LEADER_WORKER_SET, CLASS)
"""The kinds that are watched only if they are installed, because a watch of a missing kind fails forever."""
OF_GROUPS = (STATEFUL_SET,)
"""The kind between a LeaderWorkerSet and its pods. It is watched only if LeaderWorkerSets are served."""
KINDS = {(kind.api_version, kind.kind): kind for kind in (*WATCHED, *OPTIONAL, *OF_GROUPS)}


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """Return the kind of a manifest. Raises KeyError if the kind is unknown."""
    return KINDS[manifest["apiVersion"], manifest["kind"]]


DISCOVERY_SECONDS = 5.0
"""Seconds between checks for optional kinds that were installed or uninstalled."""

log = logging.getLogger(__name__)


class ServedKinds:
    """The kinds that the API server serves. Errors are retried, because only NotFound proves that a kind is missing."""

    def __init__(self, cluster: ClusterClient) -> None:
        """Create a client for API discovery."""
        self._cluster = cluster

    async def wait_until_defined(self, kind: Kind) -> None:
        """Wait until the CustomResourceDefinition of `kind` is installed. A chart may install the operator first."""
        backoff = ExponentialRetryDelays(1.0, 10.0)
        while not await self._is_served(kind):
            log.warning("%s is not defined in this cluster yet. Install the CRD.", kind.kind)
            await asyncio.sleep(backoff.next())

    async def find_kinds_to_watch(self) -> set[Kind]:
        """Return all kinds to watch. Missing kinds are omitted, because a watch of a missing kind always fails."""
        served_kinds = {kind for kind in OPTIONAL if await self._is_served(kind)}
        return {*WATCHED, *served_kinds, *(OF_GROUPS if LEADER_WORKER_SET in served_kinds else ())}

    async def wait_for_change(
        self, watched: Collection[Kind], failing: Collection[Kind], needed: Callable[[Kind], bool]
    ) -> None:
        """Wait until an optional kind that is `needed` is installed, or a `watched` kind is uninstalled.

        Only kinds that are needed but not watched, and watched kinds that are `failing`, are checked.
        """
        while True:
            await asyncio.sleep(DISCOVERY_SECONDS)
            for kind in OPTIONAL:
                must_check = kind in failing if kind in watched else needed(kind)
                if must_check and await self._is_served(kind) != (kind in watched):
                    log.info("%s were %s.", kind.plural, "uninstalled" if kind in watched else "installed")
                    return

    async def _is_served(self, kind: Kind) -> bool:
        backoff = ExponentialRetryDelays(1.0, 10.0)
        while True:
            try:
                # Use API discovery, because it needs no permission. A watch of CRDs would need permission for all CRDs.
                resource_list = await self._cluster.request("GET", f"/apis/{kind.api_version}")
            except NotFoundError:
                return False
            except OperatorError as error:
                log.warning("%s", error)
                await asyncio.sleep(backoff.next())
            else:
                return any(resource["name"] == kind.plural for resource in resource_list.get("resources") or ())
