"""spec.pod: the settings of the pods."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import VALID_KEYS, Annotations, ApiModel, Labels, ObjectName, Quantity
from gaudi_operator.api.schema_keywords import (
    Block,
    SchemaRule,
    list_map_keywords,
    rules_keyword,
    schema_config_with_rules,
)
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources, SideContainers
from gaudi_operator.api.v1alpha1.pods.scheduling import Toleration, TopologySpreadConstraints
from gaudi_operator.api.v1alpha1.pods.volumes import OUTSIDE_OF_OURS, Volume, VolumeMounts

DEFAULT_USER = 65532


class SecretName(ApiModel):
    """Name of the Secret for pulling images. The Secret is in the same namespace as the pod."""

    name: ObjectName = Field(description="Name of the Secret.")


_DECLARED = "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)"


class Pod(ApiModel):
    """Settings of the pods. The fields have the same names as in a Pod. No setting weakens the security context."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule=f"!has(self.volumeMounts) || self.volumeMounts.all(mount, {_DECLARED})",
            message="spec.pod.volumeMounts: every name must be the name of a volume in spec.pod.volumes",
        ),
        *(
            SchemaRule(
                rule=f"!has(self.{field}) || self.{field}.all(each, !has(each.volumeMounts) ||"
                f" each.volumeMounts.all(mount, {_DECLARED}))",
                message=f"spec.pod.{field}: every name in volumeMounts must be the name of a volume in"
                " spec.pod.volumes",
            )
            for field in ("initContainers", "sidecars")
        ),
        SchemaRule(
            rule="!has(self.initContainers) || !has(self.sidecars) ||"
            " !self.initContainers.exists(one, self.sidecars.exists(other, one.name == other.name))",
            message="a name in spec.pod.sidecars must not be a name in spec.pod.initContainers: choose another name",
        ),
    )
    labels: Labels = Field(
        {},
        description="Further labels of the pods. Keys that start with inference.gaudi.dev/ are reserved.",
        json_schema_extra=rules_keyword(
            VALID_KEYS,
            SchemaRule(
                rule="!self.exists(key, key.startsWith('inference.gaudi.dev/'))",
                message="must not use keys that start with inference.gaudi.dev/: they are reserved for the operator",
            ),
        ),
    )
    annotations: Annotations = Field({}, description="Further annotations of the pods.")
    node_selector: Labels = Field({}, description="Labels and values that a node must have.")
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        (), description="Tolerations of the pods."
    )
    affinity: Block | None = Field(None, description="Affinity of the pods, as in a Pod.")
    topology_spread_constraints: TopologySpreadConstraints = Field(
        (),
        description="How the pods are spread over topology domains. A constraint for kubernetes.io/hostname replaces"
        " the default constraint, which prefers a different node for each pod of a revision.",
    )
    priority_class_name: ObjectName | None = Field(None, description="Name of the priority class of the pods.")
    scheduler_name: ObjectName | None = Field(
        None, description="Name of the scheduler of the pods. When left out: the default scheduler."
    )
    runtime_class_name: ObjectName | None = Field(None, description="Name of the runtime class of the pods.")
    service_account_name: ObjectName | None = Field(
        None,
        description="Name of the service account of the pods. When left out, the operator creates an account. The"
        " token of the account is never mounted.",
    )
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(max_length=8)] = Field(
        (), description="Secrets for pulling images.", json_schema_extra=list_map_keywords("name")
    )
    resources: ContainerResources = Field(
        ContainerResources(),
        description="Requests and limits of the runtime container. A CPU limit slows compiles, even on a node with"
        " spare cores. ephemeral-storage includes logs, /cache, /tmp and a model that is downloaded without a claim.",
    )
    shared_memory_size: Quantity | None = Field(
        None,
        description="Size of /dev/shm. When left out: 1Gi, plus 512Mi for each rank if a pod has several ranks. The"
        " files count as memory of the container.",
    )
    run_as_user: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = Field(
        None,
        description="User id and group id of the pods. Root is not allowed. When left out: the user of the class, or"
        f" {DEFAULT_USER}.",
    )
    supplemental_groups: Annotated[tuple[Annotated[int, Field(ge=1, le=2_147_483_647)], ...], Field(max_length=16)] = (
        Field((), description="Further group ids of the pods, such as the group of the files on a shared file system.")
    )
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        30, description="Maximum time in seconds for running requests to finish after a pod is deleted."
    )
    volumes: Annotated[tuple[Volume, ...], Field(max_length=16)] = Field(
        (), description="Further volumes of the pods.", json_schema_extra=list_map_keywords("name")
    )
    volume_mounts: VolumeMounts = Field(
        (),
        description="Mounts of volumes in the runtime container. Paths of the operator's mounts are reserved.",
        json_schema_extra=list_map_keywords("mountPath") | rules_keyword(OUTSIDE_OF_OURS),
    )
    init_containers: SideContainers = Field(
        (),
        description="Containers that run one after another before the sidecars and the runtime start.",
        json_schema_extra=list_map_keywords("name"),
    )
    sidecars: SideContainers = Field(
        (),
        description="Containers that start before the runtime and end after the runtime, as init containers with"
        " restartPolicy Always.",
        json_schema_extra=list_map_keywords("name"),
    )
