"""spec.pod.volumes and mounts, written as in a Pod.

Only kinds of volumes that the Pod Security Standard "restricted" allows: none reaches into the node. What the operator
mounts by itself keeps its names and paths.
"""

from enum import StrEnum
from posixpath import dirname
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import (
    DNS_LABEL,
    AnnotationValue,
    ApiModel,
    DataKey,
    KeyText,
    ObjectName,
    Quantity,
    Rule,
    rules,
    validated_by,
)
from gaudi_runtime.contract.ports import (
    ADAPTERS_PATH,
    CACHE_PATH,
    CONFIG_PATH,
    FETCH_PATH,
    KEPT_REVISIONS_PATH,
    MODEL_PATH,
    SEED_RECIPES_PATH,
    SHARED_RECIPES_PATH,
    TLS_PATH,
)

LABEL_OR_ANNOTATION = (
    r"metadata\.(labels|annotations)\['([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?'\]"
)
"""How a field reference names one label or annotation."""

RESERVED_PATHS = (
    "/dev",
    "/proc",
    "/sys",
    "/tmp",  # noqa: S108 - a volume of the pod's own
    dirname(CONFIG_PATH),
    dirname(KEPT_REVISIONS_PATH),
    MODEL_PATH,
    ADAPTERS_PATH,
    FETCH_PATH,
    CACHE_PATH,
    SHARED_RECIPES_PATH,
    SEED_RECIPES_PATH,
    TLS_PATH,
)
"""Where the runtime container has what the operator mounts, or the machine's own; a test holds all our mounts to it."""

RESERVED_VOLUMES = (
    "config",
    "model",
    "fetched",
    "recipes",
    "kept-revisions",
    "seed-recipes",
    "gaudi-tls",
    "cache",
    "tmp",
    "shared-memory",
)
"""The operator's own volumes, and adapter-0 and so on."""

OUTSIDE_OF_OURS = Rule(
    rule=f"self.all(mount, !{list(RESERVED_PATHS)}.exists(own, mount.mountPath == own ||"
    " mount.mountPath.startsWith(own + '/') || own.startsWith(mount.mountPath + '/')))",
    message="mountPath must neither be, lie in, nor lie above one of the operator's own: choose a path outside of"
    f" {', '.join(RESERVED_PATHS)}",
)

VolumeName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL),
    Field(
        json_schema_extra=rules(
            Rule(
                rule=f"!(self in {list(RESERVED_VOLUMES)}) && !self.startsWith('adapter-')",
                message="must not be the name of one of the operator's own volumes"
                f" ({', '.join(RESERVED_VOLUMES)}, adapter-...): choose another",
            )
        )
    ),
]
_ShortPath = Annotated[str, StringConstraints(min_length=1, max_length=256)]
MountPath = Annotated[
    _ShortPath,
    Field(
        json_schema_extra=rules(
            Rule(
                rule="self.matches('^(/[^/:]+)+$') && !self.matches('/[.][.]?(/|$)')",
                message="must be an absolute path such as /etc/company, without '.', '..', ':' or a '/' at its end",
            )
        )
    ),
]
FilePath = Annotated[
    _ShortPath,
    Field(
        json_schema_extra=rules(
            Rule(
                rule="!self.matches('^/|^[.][.]|/[.][.](/|$)')",
                message="must be a relative path that neither has '..' nor begins with two dots",
            )
        )
    ),
]
FileMode = Annotated[int, Field(ge=0, le=0o777)]
_MODE = "Permissions of the files, as a decimal number; 420, which is 0644, when left out."


class KeyToPath(ApiModel):
    """A key, and the file that it becomes."""

    key: DataKey = Field(description="The key.")
    path: FilePath = Field(description="The file, relative to the volume.")


Items = Annotated[tuple[KeyToPath, ...], Field(max_length=16)]


class ConfigMapProjection(ApiModel):
    """A ConfigMap in the same namespace, a file for each key."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    items: Items = Field((), description="The keys that become files; all when left out.")
    optional: bool | None = Field(None, description="Whether pods start without it; false when left out.")


class ConfigMapVolume(ConfigMapProjection):
    """A ConfigMap in the same namespace, a file for each key."""

    default_mode: FileMode | None = Field(None, description=_MODE)


class SecretProjection(ApiModel):
    """A Secret in the same namespace, a file for each key; only the kubelet reads it."""

    name: ObjectName = Field(description="Name of the Secret.")
    items: Items = Field((), description="The keys that become files; all when left out.")
    optional: bool | None = Field(None, description="Whether pods start without it; false when left out.")


class SecretVolume(ApiModel):
    """A Secret in the same namespace, a file for each key; only the kubelet reads it."""

    secret_name: ObjectName = Field(description="Name of the Secret.")
    items: Items = Field((), description="The keys that become files; all when left out.")
    optional: bool | None = Field(None, description="Whether pods start without it; false when left out.")
    default_mode: FileMode | None = Field(None, description=_MODE)


class Medium(StrEnum):
    """What an emptyDir is made of, where it is not the node's disk."""

    MEMORY = "Memory"


class EmptyDirVolume(ApiModel):
    """A folder that is empty at first and ends with its pod."""

    medium: Medium | None = Field(
        None, description="Memory counts as memory of the containers that write; the node's disk when left out."
    )
    size_limit: Quantity | None = Field(None, description="Most that may be written to it.")


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim in the same namespace."""

    claim_name: ObjectName = Field(
        description="Name of the PersistentVolumeClaim; ReadWriteMany or ReadOnlyMany where pods run on several nodes."
    )
    read_only: bool = Field(False, description="Whether no container may write to it.")


class PodField(ApiModel):
    """A field of the pod's metadata."""

    field_path: Annotated[
        str,
        StringConstraints(
            min_length=1,
            max_length=340,
            pattern=rf"^(metadata\.(name|namespace|uid|labels|annotations)|{LABEL_OR_ANNOTATION})$",
        ),
    ] = Field(
        description="metadata.name, metadata.namespace, metadata.uid, metadata.labels, metadata.annotations,"
        " metadata.labels['KEY'] or metadata.annotations['KEY']."
    )


class DownwardFile(ApiModel):
    """A field of the pod's metadata as a file."""

    path: FilePath = Field(description="The file, relative to the volume.")
    field_ref: PodField = Field(description="The field.")


class DownwardProjection(ApiModel):
    """Fields of the pod as files."""

    items: Annotated[tuple[DownwardFile, ...], Field(max_length=16)] = Field((), description="The files.")


class Projection(ApiModel):
    """One source of a projected volume."""

    model_config = validated_by(
        Rule(
            rule="[has(self.configMap), has(self.secret), has(self.downwardAPI)].filter(x, x).size() == 1",
            message="must name exactly one of configMap, secret or downwardAPI",
        )
    )
    config_map: ConfigMapProjection | None = Field(None, description="A ConfigMap.")
    secret: SecretProjection | None = Field(None, description="A Secret.")
    downward_api: DownwardProjection | None = Field(None, alias="downwardAPI", description="Fields of the pod.")


class ProjectedVolume(ApiModel):
    """Several sources in one folder; a token of the service account is none of them."""

    sources: Annotated[tuple[Projection, ...], Field(min_length=1, max_length=8)] = Field(description="The sources.")
    default_mode: FileMode | None = Field(None, description=_MODE)


class CsiVolume(ApiModel):
    """A volume that a CSI driver of the cluster makes for each pod, such as one for secrets of a vault."""

    driver: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][-A-Za-z0-9.]*$")] = (
        Field(description="Name of the driver; it must allow volumes that end with their pod.")
    )
    read_only: bool | None = Field(None, description="Whether no container may write to it; false when left out.")
    volume_attributes: Annotated[dict[KeyText, AnnotationValue], Field(max_length=16)] = Field(
        {}, description="Parameters of the driver."
    )


class Volume(ApiModel):
    """A volume of the pods, written as in a Pod; hostPath and tokens of service accounts are none."""

    model_config = validated_by(
        Rule(
            rule="[has(self.configMap), has(self.secret), has(self.emptyDir), has(self.persistentVolumeClaim),"
            " has(self.projected), has(self.csi)].filter(x, x).size() == 1",
            message="must name exactly one of configMap, secret, emptyDir, persistentVolumeClaim, projected or csi",
        )
    )
    name: VolumeName = Field(description="Name of the volume, which mounts refer to.")
    config_map: ConfigMapVolume | None = Field(None, description="A ConfigMap, a file for each key.")
    secret: SecretVolume | None = Field(None, description="A Secret, a file for each key.")
    empty_dir: EmptyDirVolume | None = Field(None, description="A folder that ends with its pod.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A PersistentVolumeClaim.")
    projected: ProjectedVolume | None = Field(None, description="Several sources in one folder.")
    csi: CsiVolume | None = Field(None, description="A volume that a CSI driver makes for each pod.")


class VolumeMount(ApiModel):
    """Where a container sees a volume."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of a volume in spec.pod.volumes."
    )
    mount_path: MountPath = Field(description="Absolute path in the container.")
    sub_path: FilePath | None = Field(None, description="Folder or file of the volume; all of it when left out.")
    read_only: bool = Field(True, description="Whether the container may only read; set false to write.")


VolumeMounts = Annotated[tuple[VolumeMount, ...], Field(max_length=16)]
