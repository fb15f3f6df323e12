"""The installation of the operator: its defaults for omitted fields, and its limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gaudi_operator.api.base import Quantity
from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER, Capability
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.tracing import TraceReceiver


@dataclass(frozen=True)
class InstallationHostPath:
    """A node folder that pods may mount according to the installation: `prefix` and everything below it.

    `namespaces` are the namespaces whose pods may mount the folder. If the tuple is empty, all pods may mount it.
    `groups` are the supplementary groups that these pods may have in addition to their fixed group.
    """

    prefix: str
    namespaces: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class InstallationDefaults:
    """The installation's defaults for omitted fields of a spec, and its limits.

    For one resource, the class replaces `tracing` and sets the fields after it (core/classes.py).
    """

    runtime_image: str
    hpu_image: str
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[str, ...] = ()
    allow_host_path: tuple[InstallationHostPath, ...] = ()
    allow_simulation: bool = False
    operator_namespace: str = "gaudi-system"
    monitoring_from: tuple[Mapping[str, Any], ...] = ()
    gateways_from: tuple[Mapping[str, Any], ...] = ()
    controller: str = DEFAULT_CONTROLLER
    require_class: bool = False
    tracing: TraceReceiver | None = None
    user_from_cluster: bool = False
    capabilities: tuple[Capability, ...] = ()
    cache_size: Quantity | None = None
    tmp_size: Quantity | None = None

    def __hash__(self) -> int:
        """Return a hash of the fields that are hashable. The other fields may contain dictionaries."""
        return hash((self.runtime_image, self.hpu_image, self.controller))
