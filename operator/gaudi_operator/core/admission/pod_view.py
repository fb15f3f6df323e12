"""What is judged of a rendered pod template, with the fields of the spec that it came from.

A stored template may be of any release, and whoever may write ControllerRevisions may give them any content: what does
not have this form is refused by whoever reads it.
"""

from collections.abc import Iterator
from posixpath import normpath

from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.children.manifests.container import CARDS_VARIABLE, NO_CARDS
from gaudi_operator.core.names import CONTAINER
from gaudi_runtime.contract.base import Tolerant


class _Variable(Tolerant):
    name: str
    value: str = ""


class _Container(Tolerant):
    name: str
    image: str = ""
    env: tuple[_Variable, ...] = ()
    restart_policy: str | None = None


class _Folder(Tolerant):
    path: str


class _Image(Tolerant):
    reference: str = ""


class _Volume(Tolerant):
    name: str
    image: _Image | None = None
    host_path: _Folder | None = None


class _Toleration(Tolerant):
    key: str | None = None


class _Requirement(Tolerant):
    key: str
    operator: str


class _Term(Tolerant):
    match_expressions: tuple[_Requirement, ...] = ()


class _Required(Tolerant):
    node_selector_terms: tuple[_Term, ...] = ()


class _Preferred(Tolerant):
    preference: _Term = _Term()


class _NodeAffinity(Tolerant):
    required_during_scheduling_ignored_during_execution: _Required = _Required()
    preferred_during_scheduling_ignored_during_execution: tuple[_Preferred, ...] = ()

    @property
    def requirements(self) -> Iterator[_Requirement]:
        """What is asked of the labels of nodes, needed or preferred."""
        for term in self.required_during_scheduling_ignored_during_execution.node_selector_terms:
            yield from term.match_expressions
        for each in self.preferred_during_scheduling_ignored_during_execution:
            yield from each.preference.match_expressions


class _Affinity(Tolerant):
    node_affinity: _NodeAffinity = _NodeAffinity()


class Security(Tolerant):
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()


class _Metadata(Tolerant):
    annotations: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it


class _Spec(Tolerant):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()
    node_selector: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    tolerations: tuple[_Toleration, ...] = ()
    affinity: _Affinity = _Affinity()
    priority_class_name: str = ""
    runtime_class_name: str = ""
    service_account_name: str = ""
    security_context: Security = Security()


_OF_VOLUMES = {"model": "spec.model.source.ociImage", "seed-recipes": "spec.recipeCache.ociImage"}


def _keeps_cards_away(variable: _Variable) -> bool:
    return (variable.name, variable.value) == (CARDS_VARIABLE, NO_CARDS)


def _kind(container: _Container) -> str:
    return "sidecars" if container.restart_policy == "Always" else "initContainers"


class PodView(Tolerant):
    """The parts of a pod template that are judged."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()

    @property
    def annotations(self) -> Iterator[str]:
        """Keys of those of the user; ours say what a pod was made from."""
        return (each for each in self.metadata.annotations if not each.startswith(f"{GROUP}/"))

    @property
    def images(self) -> Iterator[tuple[str, str]]:
        """(field of the spec, image) of every container and of every volume."""
        for each in self.spec.containers:
            yield "spec.engine.image" if each.name == CONTAINER else f"container {each.name}: image", each.image
        for each in self.spec.init_containers:
            yield f"spec.pod.{_kind(each)} {each.name}: image", each.image
        for volume in self.spec.volumes:
            if volume.image:
                yield _OF_VOLUMES.get(volume.name, "spec.model.adapters.source.ociImage"), volume.image.reference

    @property
    def variables(self) -> Iterator[tuple[str, str]]:
        """(field of the spec, name) of every variable of every container, but for the one that keeps cards away."""
        for each in self.spec.containers:
            where = "spec.engine.env" if each.name == CONTAINER else f"container {each.name}"
            yield from ((where, variable.name) for variable in each.env if not _keeps_cards_away(variable))
        for each in self.spec.init_containers:
            where = f"spec.pod.{_kind(each)} {each.name}: env"
            yield from ((where, variable.name) for variable in each.env if not _keeps_cards_away(variable))

    @property
    def host_paths(self) -> Iterator[tuple[str, str]]:
        """(field of the spec, folder) of every folder of a node."""
        for each in self.spec.volumes:
            if each.host_path:
                where = "adapters.source" if each.name.startswith("adapter-") else "source"
                yield f"spec.model.{where}.hostPath", each.host_path.path


def is_below(path: str, prefix: str) -> bool:
    """Whether a folder is `prefix` or lies in it; never for a path that climbs."""
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    # normpath leaves two leading slashes, which POSIX lets mean something else.
    found, above = ("/" + normpath(each).lstrip("/") for each in (path, prefix))
    return found == above or found.startswith(f"{above.rstrip('/')}/")
