"""The parts of a pod template that installation rules and class limits check, with their fields in the spec.

A stored template may come from any release, and any user with permission to write ControllerRevisions can store one. A
template that does not match these models is refused. pod_fields.py checks all other fields.
"""

from collections.abc import Iterator
from posixpath import normpath
from typing import Annotated, Any

from pydantic import Field

from gaudi_operator.api.permission_rules import CARDS_VARIABLE, NO_CARDS
from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.admission.pod_fields import is_device, parse_device_count
from gaudi_operator.core.names import CONTAINER
from gaudi_runtime.contract.base import TolerantModel

_MOST_VARIABLES, _MOST_CONTAINERS = 1_000, 100
"""The limits for stored templates, because every reconcile reads all variables and containers."""


class _SecretKeyRef(TolerantModel):
    optional: bool = False


class _VariableSource(TolerantModel):
    secret_key_ref: _SecretKeyRef | None = None


class _Variable(TolerantModel):
    name: str
    value: str = ""
    value_from: _VariableSource = _VariableSource()

    @property
    def is_required_secret(self) -> bool:
        """True if the container does not start without the Secret that contains the value."""
        reference = self.value_from.secret_key_ref
        return reference is not None and not reference.optional


class _Resources(TolerantModel):
    limits: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    requests: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it


class _Container(TolerantModel):
    name: str
    image: str = ""
    env: Annotated[tuple[_Variable, ...], Field(max_length=_MOST_VARIABLES)] = ()
    restart_policy: str | None = None
    resources: _Resources = _Resources()


_Containers = Annotated[tuple[_Container, ...], Field(max_length=_MOST_CONTAINERS)]


class _HostPathVolume(TolerantModel):
    path: str


class _ImageVolume(TolerantModel):
    reference: str = ""


class _Volume(TolerantModel):
    name: str
    image: _ImageVolume | None = None
    host_path: _HostPathVolume | None = None
    persistent_volume_claim: dict[str, Any] | None = None


class _Toleration(TolerantModel):
    key: str | None = None


class _Requirement(TolerantModel):
    key: str
    operator: str


class _NodeSelectorTerm(TolerantModel):
    match_expressions: tuple[_Requirement, ...] = ()


class _RequiredAffinity(TolerantModel):
    node_selector_terms: tuple[_NodeSelectorTerm, ...] = ()


class _PreferredAffinity(TolerantModel):
    preference: _NodeSelectorTerm = _NodeSelectorTerm()


class _NodeAffinity(TolerantModel):
    required_during_scheduling_ignored_during_execution: _RequiredAffinity = _RequiredAffinity()
    preferred_during_scheduling_ignored_during_execution: tuple[_PreferredAffinity, ...] = ()

    @property
    def requirements(self) -> Iterator[_Requirement]:
        """The label requirements on nodes, both required and preferred."""
        for term in self.required_during_scheduling_ignored_during_execution.node_selector_terms:
            yield from term.match_expressions
        for preferred_term in self.preferred_during_scheduling_ignored_during_execution:
            yield from preferred_term.preference.match_expressions


class _Affinity(TolerantModel):
    node_affinity: _NodeAffinity = _NodeAffinity()


class PodSecurityContext(TolerantModel):
    """The group IDs of a pod's processes, from its security context."""

    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()


class _Metadata(TolerantModel):
    annotations: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it


class _Spec(TolerantModel):
    containers: _Containers = ()
    init_containers: _Containers = ()
    volumes: tuple[_Volume, ...] = ()
    node_selector: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    tolerations: tuple[_Toleration, ...] = ()
    affinity: _Affinity = _Affinity()
    priority_class_name: str = ""
    runtime_class_name: str = ""
    service_account_name: str = ""
    resource_claims: tuple[dict[str, Any], ...] = ()
    security_context: PodSecurityContext = PodSecurityContext()


_OF_VOLUMES = {"model": "spec.model.source", "seed-recipes": "spec.recipeCache"}


def _volume_field(volume: _Volume, of_model: str, of_pod: str) -> str:
    """Return the field of the spec that sets the source of a volume, by its name in `spec.model` and in `spec.pod`."""
    source = "spec.model.lora.adapters.source" if volume.name.startswith("adapter-") else _OF_VOLUMES.get(volume.name)
    return f"{source}.{of_model}" if source else f"spec.pod.volumes {volume.name}: {of_pod}"


def _hides_cards(variable: _Variable) -> bool:
    return (variable.name, variable.value) == (CARDS_VARIABLE, NO_CARDS)


def _spec_field(container: _Container) -> str:
    return "sidecars" if container.restart_policy == "Always" else "initContainers"


class PodTemplateView(TolerantModel):
    """The parts of a pod template that the pod policy checks."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()

    @property
    def user_annotations(self) -> Iterator[str]:
        """The keys of the annotations that users set, without the operator's annotations."""
        return (annotation for annotation in self.metadata.annotations if not annotation.startswith(f"{GROUP}/"))

    @property
    def images(self) -> Iterator[tuple[str, str]]:
        """The images of all containers and volumes, as (field of the spec, image)."""
        for container in self.spec.containers:
            spec_field = "spec.server.image" if container.name == CONTAINER else f"container {container.name}: image"
            yield spec_field, container.image
        for container in self.spec.init_containers:
            yield f"spec.pod.{_spec_field(container)} {container.name}: image", container.image
        for volume in self.spec.volumes:
            if volume.image:
                yield _volume_field(volume, "ociImage", "image"), volume.image.reference

    @property
    def variables(self) -> Iterator[tuple[str, str]]:
        """The variables of all containers, as (field of the spec, name). The variable that hides cards is left out."""
        for container in self.spec.containers:
            spec_field = "spec.engine.env" if container.name == CONTAINER else f"container {container.name}"
            yield from ((spec_field, variable.name) for variable in container.env if not _hides_cards(variable))
        for container in self.spec.init_containers:
            spec_field = f"spec.pod.{_spec_field(container)} {container.name}: env"
            yield from ((spec_field, variable.name) for variable in container.env if not _hides_cards(variable))

    @property
    def card_count(self) -> int:
        """The number of devices that a pod of this template requests."""
        resources = (container.resources for container in (*self.spec.containers, *self.spec.init_containers))
        # Kubernetes requires the limit and the request of a device to be equal, so count each device once.
        amounts = ({**resource.requests, **resource.limits}.items() for resource in resources)
        return sum(parse_device_count(amount) or 0 for items in amounts for name, amount in items if is_device(name))

    @property
    def claim_templates(self) -> Iterator[str]:
        """The names of the ResourceClaimTemplates or ResourceClaims that provide devices."""
        keys = ("resourceClaimTemplateName", "resourceClaimName")
        return (str(claim[key]) for claim in self.spec.resource_claims for key in keys if key in claim)

    @property
    def model_sources(self) -> Iterator[tuple[str, str]]:
        """The volumes that contain a model or an adapter, as (field of the spec, kind of source)."""
        for volume in self.spec.volumes:
            model_field = "lora.adapters.source" if volume.name.startswith("adapter-") else "source"
            if volume.name == "model" or model_field == "lora.adapters.source":
                kinds = {
                    "hostPath": volume.host_path,
                    "ociImage": volume.image,
                    "persistentVolumeClaim": volume.persistent_volume_claim,
                }
                yield from ((model_field, kind) for kind, volume_source in kinds.items() if volume_source is not None)

    @property
    def host_paths(self) -> Iterator[tuple[str, str]]:
        """The node folders that the pod mounts, as (field of the spec, folder)."""
        for volume in self.spec.volumes:
            if volume.host_path:
                yield _volume_field(volume, "hostPath", "hostPath"), volume.host_path.path


def is_path_inside(path: str, prefix: str) -> bool:
    """Return True if a folder of a pod is `prefix` or inside it. A path with `..` always returns False."""
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    # POSIX gives two leading slashes a special meaning, so normpath keeps them. Reduce them to one slash.
    folder, parent = ("/" + normpath(raw_path).lstrip("/") for raw_path in (path, prefix))
    return folder == parent or folder.startswith(f"{parent.rstrip('/')}/")
