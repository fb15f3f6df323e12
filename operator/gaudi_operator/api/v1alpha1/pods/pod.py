"""spec.pod: what may be said about the pods."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import (
    VALID_KEYS,
    Annotations,
    ApiModel,
    Labels,
    ObjectName,
    Quantity,
    Rule,
    list_map,
    rules,
    validated_by,
)
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources, SideContainers
from gaudi_operator.api.v1alpha1.pods.scheduling import Affinity, Toleration, TopologySpreadConstraints
from gaudi_operator.api.v1alpha1.pods.volumes import OUTSIDE_OF_OURS, Volume, VolumeMounts

DEFAULT_USER = 65532


class Capability(StrEnum):
    """What may be added to the rights of the runtime container."""

    SYS_NICE = "SYS_NICE"


class SecretName(ApiModel):
    """A Secret in the same namespace, by name."""

    name: ObjectName = Field(description="Name of the Secret.")


_DECLARED = "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)"


class Pod(ApiModel):
    """What may be said about the pods: an allowlist, so that nothing here weakens their security."""

    model_config = validated_by(
        Rule(
            rule=f"!self.userFromCluster || self.runAsUser == {DEFAULT_USER}",
            message="spec.pod.runAsUser must be left out when userFromCluster is true: the cluster assigns one",
        ),
        Rule(
            rule=f"!has(self.volumeMounts) || self.volumeMounts.all(mount, {_DECLARED})",
            message="spec.pod.volumeMounts: every name must be that of a volume in spec.pod.volumes",
        ),
        *(
            Rule(
                rule=f"!has(self.{field}) || self.{field}.all(each, !has(each.volumeMounts) ||"
                f" each.volumeMounts.all(mount, {_DECLARED}))",
                message=f"spec.pod.{field}: every name in volumeMounts must be that of a volume in spec.pod.volumes",
            )
            for field in ("initContainers", "sidecars")
        ),
        Rule(
            rule="!has(self.initContainers) || !has(self.sidecars) ||"
            " !self.initContainers.exists(one, self.sidecars.exists(other, one.name == other.name))",
            message="spec.pod.sidecars must not have the name of one of initContainers: choose another",
        ),
    )
    labels: Labels = Field(
        {},
        description="Further labels of the pods.",
        json_schema_extra=rules(
            VALID_KEYS,
            Rule(
                rule="!self.exists(key, key.startsWith('inference.gaudi.dev/'))",
                message="must not use keys that start with inference.gaudi.dev/: they are the operator's",
            ),
        ),
    )
    annotations: Annotations = Field({}, description="Further annotations of the pods.")
    node_selector: Labels = Field({}, description="Labels that a node must have.")
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        (), description="Taints that the pods tolerate."
    )
    affinity: Affinity | None = Field(None, description="Which nodes and pods they run near, or far from.")
    topology_spread_constraints: TopologySpreadConstraints = Field(
        (),
        description="How the pods are spread over places. One for kubernetes.io/hostname replaces the operator's own,"
        " which prefers another node for each pod of a revision.",
    )
    priority_class_name: ObjectName | None = Field(None, description="Priority class of the pods.")
    scheduler_name: ObjectName | None = Field(None, description="Scheduler of the pods.")
    runtime_class_name: ObjectName | None = Field(None, description="Runtime class of the pods.")
    service_account_name: ObjectName | None = Field(
        None,
        description="Service account of the pods; one is made when left out. Its token is never mounted.",
    )
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=8)] = Field(
        (), description="Secrets for pulling images.", json_schema_extra=list_map("name")
    )
    resources: ContainerResources = Field(
        ContainerResources(),
        description="CPU, memory and disk of the runtime container. A limit of CPU slows compiles on a node that has"
        " cores to spare. The disk holds logs, /cache, /tmp and a model that is fetched into no PVC.",
    )
    shared_memory_size: Quantity | None = Field(
        None,
        description="Size of /dev/shm, which counts as memory of the container; 1Gi, and 512Mi for every rank of"
        " several, when left out.",
    )
    cache_size: Quantity | None = Field(
        None,
        description="Size of /cache on the node's disk: what the engine has compiled, and the caches of its libraries."
        " A pod that writes more is evicted. Without a size the limit of ephemeral-storage applies.",
    )
    tmp_size: Quantity | None = Field(
        None,
        description="Size of /tmp on the node's disk: temporary files, and the logs of a card's software. A pod that"
        " writes more is evicted. Without a size the limit of ephemeral-storage applies.",
    )
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] = Field(
        DEFAULT_USER, description="User and group id of the pods; never root."
    )
    user_from_cluster: bool = Field(
        False,
        description="Whether the cluster assigns user and groups, as OpenShift does: runAsUser, runAsGroup and fsGroup"
        " are then left out of the pods, which still must not run as root.",
    )
    supplemental_groups: Annotated[tuple[Annotated[int, Field(ge=1, le=2_147_483_647)], ...], Field(max_length=16)] = (
        Field((), description="Further group ids of the pods, such as that of the files on a shared file system.")
    )
    capabilities: Annotated[tuple[Capability, ...], Field(max_length=1)] = Field(
        (),
        description="Linux capabilities of the runtime container, none when left out. SYS_NICE lets it place its memory"
        " on NUMA nodes; a namespace of the Pod Security level restricted refuses it.",
    )
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        30, description="How long running requests may take to finish when a pod is stopped, in seconds."
    )
    volumes: Annotated[tuple[Volume, ...], Field(max_length=16)] = Field(
        (), description="Further volumes of the pods.", json_schema_extra=list_map("name")
    )
    volume_mounts: VolumeMounts = Field(
        (),
        description="Where the runtime container sees them; outside of what the operator mounts there.",
        json_schema_extra=list_map("mountPath") | rules(OUTSIDE_OF_OURS),
    )
    init_containers: SideContainers = Field(
        (),
        description="Containers that run one after another and end, before sidecars and the runtime start.",
        json_schema_extra=list_map("name"),
    )
    sidecars: SideContainers = Field(
        (),
        description="Containers that start before the runtime and end after it (init containers with restartPolicy"
        " Always).",
        json_schema_extra=list_map("name"),
    )
