"""spec.pod.volumes and volumeMounts, as in a Pod.

The names and paths of the operator's own volumes are reserved. The policy for the operator's account lists the kinds of
volumes that pods may have, which are those of the Pod Security Standard "restricted".
"""

from posixpath import dirname
from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import DNS_LABEL, ApiModel
from gaudi_operator.api.schema_keywords import SchemaRule, block_schema_config, rules_keyword
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

OUTSIDE_OF_OURS = SchemaRule(
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
            SchemaRule(
                rule=f"!(self in {list(RESERVED_VOLUMES)}) && !self.startsWith('adapter-')",
                message="must not be the name of one of the operator's own volumes"
                f" ({', '.join(RESERVED_VOLUMES)}, adapter-...): choose another",
            )
        )
    ),
]
MountPath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=256),
    Field(
        json_schema_extra=rules_keyword(
            SchemaRule(
                rule="self.matches('^(/[^/:]+)+$') && !self.matches('/[.][.]?(/|$)')",
                message="must be an absolute path such as /etc/company, without '.', '..', ':' or a '/' at its end",
            )
        )
    ),
]


class Volume(ApiModel):
    """Volume of the pods, as in a Pod. hostPath and service account tokens are not supported."""

    model_config = block_schema_config()
    name: VolumeName = Field(description="Name of the volume. Volume mounts refer to this name.")


class VolumeMount(ApiModel):
    """Mount of one of the volumes in a container, as in a Pod."""

    model_config = block_schema_config()
    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=DNS_LABEL)] = Field(
        description="Name of a volume in spec.pod.volumes."
    )
    mount_path: MountPath = Field(description="Absolute path in the container.")
    read_only: bool = Field(True, description="Whether the mount is read-only. Set false to write to the volume.")


VolumeMounts = Annotated[tuple[VolumeMount, ...], Field(max_length=16)]
