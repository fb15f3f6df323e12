"""The contents of a revision: inputs, pod templates, configuration and failure (docs/how-to/revisions.md).

The inputs are the fields that change what a pod runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from gaudi_operator.api.base import ApiModel, ObjectName
from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Parallelism
from gaudi_operator.api.v1alpha1.bucketing import Bucketing
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Model
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.api.v1alpha1.server import Server
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.api.v1alpha1.warmup import RecipeCache, Warmup
from gaudi_operator.core.inference import Inference, SpecUnreadable, cache_on_inference
from gaudi_operator.core.nested_objects import read_nested_object, read_nested_objects
from gaudi_operator.core.quantities import parse_quantity
from gaudi_operator.core.text_formats import short_text_hash
from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.contract.config import EngineName, ExecutionMode
from gaudi_runtime.errors import Problem

VERSION = 4
"""The version of the stored form of inputs. Versions 1 to 3 were never released.

A release that changes the form raises this number and reads every released form, so that an operator upgrade restarts
no pods (docs/reference/api-policy.md).
"""


class RevisionInputs(ApiModel):
    """The fields of a spec that define a revision.

    Defaults of the installation, such as the image, are not inputs. They are resolved when a revision is created. Only
    the rendered template of the revision contains them.
    """

    class_name: ObjectName | None = None
    model: Model
    accelerator: Accelerator
    parallelism: Parallelism = Parallelism()
    engine: Engine = Engine()
    server: Server = Server()
    bucketing: Bucketing = Bucketing()
    warmup: Warmup = Warmup()
    recipe_cache: RecipeCache | None = None
    tracing: Tracing | None = None
    pod: Pod = Pod()
    restarted_at: str | None = None


@cache_on_inference
def revision_inputs(inference: Inference) -> RevisionInputs:
    """Return the revision inputs of the current spec."""
    spec = inference.spec
    return RevisionInputs(
        class_name=spec.class_name,
        model=spec.model,
        accelerator=spec.accelerator,
        parallelism=spec.parallelism,
        engine=spec.engine,
        server=spec.server,
        bucketing=spec.bucketing,
        warmup=spec.warmup,
        # Reset the retention policy of the cache volume, because this policy does not change pods.
        recipe_cache=spec.recipe_cache
        and spec.recipe_cache.model_copy(update={"retention_policy": RecipeCache().retention_policy}),
        tracing=spec.tracing,
        pod=spec.pod,
        restarted_at=inference.identity.restarted_at,
    )


def serialize_revision_inputs(inputs: RevisionInputs) -> dict[str, Any]:
    """Return the inputs as a ControllerRevision stores them: fields of the spec and the version of the format."""
    return {**_dump_fields(inputs), "version": VERSION}


@cache_on_inference
def _serialize_spec_inputs(inference: Inference) -> dict[str, Any]:
    """Return the inputs of the current spec as a ControllerRevision of this release stores them."""
    return serialize_revision_inputs(revision_inputs(inference))


def revision_name(inputs: RevisionInputs) -> str:
    """Return the name of a revision: ten hex digits of the hash of its inputs."""
    return short_text_hash(_dump_fields(inputs))


def _dump_fields(inputs: RevisionInputs) -> dict[str, Any]:
    return inputs.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_revision_inputs(stored: object) -> RevisionInputs:
    """Return the revision inputs that a ControllerRevision stores.

    A missing field gets its default, because a later release may have added the field. An unknown field is dropped,
    because a newer operator may have written it.

    Raises SpecUnreadable if another release wrote the inputs and this release cannot read them.
    """
    try:
        return RevisionInputs.model_validate(stored)
    except ValidationError as error:
        raise SpecUnreadable(
            "The revision was stored by another release of the operator in a form that this release cannot read."
        ) from error


def are_same_revision_inputs(stored: object, desired: RevisionInputs) -> bool:
    """Return True if a revision with the `stored` inputs runs the same pods as a revision with the `desired` inputs.

    Therefore upgrades and downgrades of the operator or the CRD create no revision. See read_revision_inputs().
    """
    try:
        return read_revision_inputs(stored) == desired
    except SpecUnreadable:
        return False


class _EngineFields(TolerantModel):
    name: str | None = None
    execution_mode: ExecutionMode | None = None


class _RuntimeConfigFields(TolerantModel):
    """The fields of a RuntimeConfig that contain the engine and its execution mode."""

    engine: _EngineFields = _EngineFields()


@dataclass(frozen=True)
class RevisionPodGroup:
    """The group of pods that form one replica of a multi-node revision.

    `size` is the number of pods including the leader. `worker_template` is the pod template of the workers.
    """

    size: int
    worker_template: dict[str, Any]


@dataclass(frozen=True)
class RevisionClassDefaults:
    """The fields of a revision that its GaudiInferenceClass filled in. `values` maps paths of the spec to values."""

    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Revision:
    """One revision: its inputs, its rendered pod template and configuration, and its failure.

    `number` orders revisions by the time when they were last selected to run. `former_numbers` are the previous numbers
    of the revision, oldest first. `stored_data` is the data of the ControllerRevision, if one exists. `template` is a
    pod template as a JSON object. With a `group`, it is the template of the leader. `config` is a RuntimeConfig as JSON
    text. It is stored as text because the API server may reformat the numbers of an object, and the name of the
    ConfigMap contains a hash of the text.
    """

    name: str
    number: int
    inputs: dict[str, Any]
    template: dict[str, Any]
    config: str
    failure: Problem | None = None
    created_at: str | None = None
    former_numbers: tuple[int, ...] = ()
    group: RevisionPodGroup | None = None
    stored_data: dict[str, Any] | None = None
    class_defaults: RevisionClassDefaults | None = None

    @property
    def config_map_name(self) -> str | None:
        """The name of the ConfigMap that the pods of the revision mount."""
        volumes = self.template.get("spec", {}).get("volumes", ())
        return next((volume["configMap"]["name"] for volume in volumes if volume.get("configMap")), None)

    @property
    def templates(self) -> tuple[dict[str, Any], ...]:
        """The pod templates of the leader and the workers."""
        return (self.template, *((self.group.worker_template,) if self.group else ()))

    @property
    def cards_per_replica(self) -> int:
        """The number of devices that the pods of one replica request."""
        leader, *workers = map(_count_devices, self.templates)
        return leader + sum(workers) * (max(1, self.group.size) - 1 if self.group else 0)

    @property
    def is_simulated(self) -> bool:
        """Whether the pods run the sim engine, according to the inputs or the configuration of the revision."""
        engine = self.inputs.get("engine")
        return EngineName.SIM in (engine.get("name") if isinstance(engine, dict) else None, self._engine_fields.name)

    @property
    def stall_timeout_seconds(self) -> int | None:
        """The stall timeout for the pods of the revision, or None if the inputs set no timeout."""
        warmup = self.inputs.get("warmup")
        seconds = warmup.get("stallTimeoutSeconds") if isinstance(warmup, dict) else None
        return seconds if isinstance(seconds, int) else None

    @property
    def learned_plan(self) -> dict[str, Any] | None:
        """The bucketing settings if the plan was learned from traffic, or None for any other plan."""
        bucketing = self.inputs.get("bucketing")
        optimal = bucketing.get("optimal") if isinstance(bucketing, dict) else None
        return bucketing if isinstance(optimal, dict) and optimal.get("traffic") else None

    @property
    def execution_mode(self) -> ExecutionMode | None:
        """The execution mode of the pods, or None if the configuration contains no known mode."""
        return self._engine_fields.execution_mode

    @property
    def _engine_fields(self) -> _EngineFields:
        try:
            return _RuntimeConfigFields.model_validate_json(self.config).engine
        except ValidationError:
            return _EngineFields()

    def matches_spec(self, inference: Inference) -> bool:
        """Return True if the revision runs what the spec requests.

        This includes a spec that sets the execution mode explicitly, if the revision already runs in this mode.
        """
        inputs = revision_inputs(inference)
        # Parsing the inputs is slow. It is needed only if another release stored them.
        if self.inputs == _serialize_spec_inputs(inference) or are_same_revision_inputs(self.inputs, inputs):
            return True
        mode = inputs.engine.execution_mode
        if mode is None or mode is not self.execution_mode:
            return False
        engine = inputs.engine.model_copy(update={"execution_mode": None})
        return are_same_revision_inputs(self.inputs, inputs.model_copy(update={"engine": engine}))

    @property
    def _class_data(self) -> dict[str, Any]:
        defaults = self.class_defaults
        return {"class": {"name": defaults.name, "values": dict(defaults.values)}} if defaults else {}

    @property
    def data(self) -> dict[str, Any]:
        """The data of the revision's ControllerRevision. Stored data is immutable, so it is returned unchanged."""
        if self.stored_data is not None:
            return self.stored_data
        group = {"group": {"size": self.group.size, "worker": self.group.worker_template}} if self.group else {}
        return {"inputs": self.inputs, "template": self.template, "config": self.config, **group, **self._class_data}


def _count_devices(template: Mapping[str, Any]) -> int:
    """Return the number of devices that a pod requests. Only the names of devices contain a domain."""
    containers = (
        each for field in ("containers", "initContainers") for each in read_nested_objects(template, "spec", field)
    )
    # Kubernetes requires the limit and the request of a device to be equal, so read only the limits.
    limits = (read_nested_object(container, "resources", "limits") for container in containers)
    return sum(_read_amount(amount) for each in limits for name, amount in each.items() if "/" in name)


def _read_amount(amount: object) -> int:
    """Return a number of devices. Return 0 for a value that the API server refuses or that no node has."""
    try:
        return int(parse_quantity(str(amount)))
    except ValueError:
        return 0


def renumber_as_newest_revision(revision: Revision, stored: tuple[Revision, ...]) -> Revision:
    """Return the revision with the highest number of all revisions, because it is now selected to run."""
    max_number = newest_revision_number(stored)
    if revision.number >= max_number:
        return revision
    return replace(revision, number=max_number + 1, former_numbers=(*revision.former_numbers, revision.number))


def newest_revision_number(stored: tuple[Revision, ...]) -> int:
    """Return the highest number of the stored revisions, or 0 if no revision is stored."""
    return max((revision.number for revision in stored), default=0)
