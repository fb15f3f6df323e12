"""spec.pod.volumes and volumeMounts, as in a Pod.

The Pod Security Standard "restricted" allows all of these kinds of volumes. The names and paths of the operator's own
volumes are reserved.
"""

from enum import StrEnum
from posixpath import dirname
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import DNS_LABEL, AnnotationValue, ApiModel, DataKey, KeyText, ObjectName, Quantity
from gaudi_operator.api.schema_keywords import Rule, config_with_rules, rules_keyword
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
"""The form of a field path for one label or annotation."""

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
"""Paths of the operator's own mounts and of the system in the runtime container."""

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
"""Names of the operator's own volumes. adapter-0 and so on are reserved as well."""

OUTSIDE_OF_OURS = Rule(
    rule=f"self.all(mount, !{list(RESERVED_PATHS)}.exists(own, mount.mountPath == own ||"
    " mount.mountPath.startsWith(own + '/') || own.startsWith(mount.mountPath + '/')))",
    message="mountPath must not be, be inside, or contain one of the operator's own paths: choose a path outside of"
    f" {', '.join(RESERVED_PATHS)}",
)

VolumeName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL),
    Field(
        json_schema_extra=rules_keyword(
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
        json_schema_extra=rules_keyword(
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
        json_schema_extra=rules_keyword(
            Rule(
                rule="!self.matches('^/|^[.][.]|/[.][.](/|$)')",
                message="must be a relative path that neither contains '..' nor starts with two dots",
            )
        )
    ),
]
FileMode = Annotated[int, Field(ge=0, le=0o777)]
_MODE = "Permissions of the files, as a decimal number. Default: 420, which is 0644."


class KeyToPath(ApiModel):
    """Key of a ConfigMap or Secret, and its file in the volume."""

    key: DataKey = Field(description="Key of the ConfigMap or Secret.")
    path: FilePath = Field(description="Path of the file, relative to the volume.")


Items = Annotated[tuple[KeyToPath, ...], Field(max_length=16)]


class ConfigMapProjection(ApiModel):
    """Part of a projected volume from a ConfigMap in the same namespace, with a file for each key."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    items: Items = Field((), description="Keys that become files. When left out: all keys.")
    optional: bool | None = Field(None, description="Whether pods start without the ConfigMap. Default: false.")


class ConfigMapVolume(ConfigMapProjection):
    """Volume from a ConfigMap in the same namespace, with a file for each key."""

    default_mode: FileMode | None = Field(None, description=_MODE)


class SecretProjection(ApiModel):
    """Part of a projected volume from a Secret in the same namespace, with a file for each key.

    Only the kubelet reads the Secret.
    """

    name: ObjectName = Field(description="Name of the Secret.")
    items: Items = Field((), description="Keys that become files. When left out: all keys.")
    optional: bool | None = Field(None, description="Whether pods start without the Secret. Default: false.")


class SecretVolume(ApiModel):
    """Volume from a Secret in the same namespace, with a file for each key. Only the kubelet reads the Secret."""

    secret_name: ObjectName = Field(description="Name of the Secret.")
    items: Items = Field((), description="Keys that become files. When left out: all keys.")
    optional: bool | None = Field(None, description="Whether pods start without the Secret. Default: false.")
    default_mode: FileMode | None = Field(None, description=_MODE)


class EmptyDirMedium(StrEnum):
    """Medium of an emptyDir volume other than the disk of the node."""

    MEMORY = "Memory"


class EmptyDirVolume(ApiModel):
    """Volume that is empty when the pod starts and is deleted with the pod."""

    medium: EmptyDirMedium | None = Field(
        None,
        description="Medium of the folder. When left out: the disk of the node. Files in Memory count as memory of"
        " the containers that write them.",
    )
    size_limit: Quantity | None = Field(
        None, description="Maximum size of the files. A pod that writes more is evicted."
    )


class ClaimVolume(ApiModel):
    """Volume from a PersistentVolumeClaim in the same namespace."""

    claim_name: ObjectName = Field(
        description="Name of the PersistentVolumeClaim. Use access mode ReadWriteMany or ReadOnlyMany if pods run on"
        " several nodes."
    )
    read_only: bool = Field(False, description="Whether the volume is mounted read-only in all containers.")


class PodField(ApiModel):
    """Field of the metadata of the pod, for a file of a volume."""

    field_path: Annotated[
        str,
        StringConstraints(
            min_length=1,
            max_length=340,
            pattern=rf"^(metadata\.(name|namespace|uid|labels|annotations)|{LABEL_OR_ANNOTATION})$",
        ),
    ] = Field(
        description="Path of the field: metadata.name, metadata.namespace, metadata.uid, metadata.labels,"
        " metadata.annotations, metadata.labels['KEY'] or metadata.annotations['KEY']."
    )


class DownwardFile(ApiModel):
    """File of a volume with a field of the metadata of the pod."""

    path: FilePath = Field(description="Path of the file, relative to the volume.")
    field_ref: PodField = Field(description="Field of the pod.")


class DownwardProjection(ApiModel):
    """Part of a projected volume: files with fields of the pod."""

    items: Annotated[tuple[DownwardFile, ...], Field(max_length=16)] = Field(
        (), description="Files with fields of the pod."
    )


class Projection(ApiModel):
    """Source of a projected volume. Exactly one member is set."""

    model_config = config_with_rules(
        Rule(
            rule="[has(self.configMap), has(self.secret), has(self.downwardAPI)].filter(x, x).size() == 1",
            message="must name exactly one of configMap, secret or downwardAPI",
        )
    )
    config_map: ConfigMapProjection | None = Field(None, description="ConfigMap in the same namespace.")
    secret: SecretProjection | None = Field(None, description="Secret in the same namespace.")
    downward_api: DownwardProjection | None = Field(None, alias="downwardAPI", description="Fields of the pod.")


class ProjectedVolume(ApiModel):
    """Volume with several sources in one folder. Tokens of the service account are not supported."""

    sources: Annotated[tuple[Projection, ...], Field(min_length=1, max_length=8)] = Field(
        description="Sources of the volume."
    )
    default_mode: FileMode | None = Field(None, description=_MODE)


class CsiVolume(ApiModel):
    """Volume that a CSI driver creates for each pod, such as a volume with secrets of a vault."""

    driver: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][-A-Za-z0-9.]*$")] = (
        Field(description="Name of the CSI driver. The driver must support ephemeral inline volumes.")
    )
    read_only: bool | None = Field(
        None, description="Whether the volume is mounted read-only in all containers. Default: false."
    )
    volume_attributes: Annotated[dict[KeyText, AnnotationValue], Field(max_length=16)] = Field(
        {}, description="Parameters for the driver."
    )


class Volume(ApiModel):
    """Volume of the pods, as in a Pod, of exactly one kind. hostPath and service account tokens are not supported."""

    model_config = config_with_rules(
        Rule(
            rule="[has(self.configMap), has(self.secret), has(self.emptyDir), has(self.persistentVolumeClaim),"
            " has(self.projected), has(self.csi)].filter(x, x).size() == 1",
            message="must name exactly one of configMap, secret, emptyDir, persistentVolumeClaim, projected or csi",
        )
    )
    name: VolumeName = Field(description="Name of the volume. Volume mounts refer to this name.")
    config_map: ConfigMapVolume | None = Field(None, description="ConfigMap, with a file for each key.")
    secret: SecretVolume | None = Field(None, description="Secret, with a file for each key.")
    empty_dir: EmptyDirVolume | None = Field(None, description="Folder that is deleted with its pod.")
    persistent_volume_claim: ClaimVolume | None = Field(
        None, description="PersistentVolumeClaim in the same namespace."
    )
    projected: ProjectedVolume | None = Field(None, description="Several sources in one folder.")
    csi: CsiVolume | None = Field(None, description="Volume that a CSI driver creates for each pod.")


class VolumeMount(ApiModel):
    """Mount of one of the volumes in a container, as in a Pod."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of a volume in spec.pod.volumes."
    )
    mount_path: MountPath = Field(description="Absolute path in the container.")
    sub_path: FilePath | None = Field(
        None, description="Folder or file of the volume that is mounted. When left out: the whole volume."
    )
    read_only: bool = Field(True, description="Whether the mount is read-only. Set false to write to the volume.")


VolumeMounts = Annotated[tuple[VolumeMount, ...], Field(max_length=16)]
