"""Revisions and their contents: inputs, pod templates, configuration and failure (docs/how-to/revisions.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.inputs import (
    are_same_inputs,
    revision_inputs,
    stored_inputs,
)
from gaudi_runtime.contract.base import Tolerant
from gaudi_runtime.contract.config import EngineName, ExecutionMode
from gaudi_runtime.errors import Problem


class _Engine(Tolerant):
    name: str | None = None
    execution_mode: ExecutionMode | None = None


class _Running(Tolerant):
    """The fields of a RuntimeConfig that name the engine and its execution mode."""

    engine: _Engine = _Engine()


@dataclass(frozen=True)
class Group:
    """The group of pods that each replica of a multi-node revision has.

    `size` includes the leader, and `worker` is the pod template of the workers.
    """

    size: int
    worker: dict[str, Any]


@dataclass(frozen=True)
class FromClass:
    """The part of a revision that its GaudiInferenceClass filled in. `values` maps paths of the spec to values."""

    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Revision:
    """One revision: its inputs, its rendered pod template and configuration, and its failure.

    `number` orders revisions by the time when they were last selected to run, and `former_numbers` are the numbers
    that it had before, oldest first. `kept` is the data of the ControllerRevision, if one exists. `template` is a pod
    template in wire form. With a `group`, it is the template of the leader. `config` is a RuntimeConfig as JSON text,
    because the API server may format numbers of an object differently and a hash of the text names the ConfigMap.
    """

    name: str
    number: int
    inputs: dict[str, Any]
    template: dict[str, Any]
    config: str
    failure: Problem | None = None
    created: str | None = None
    former_numbers: tuple[int, ...] = ()
    group: Group | None = None
    kept: dict[str, Any] | None = None
    from_class: FromClass | None = None

    @property
    def config_map(self) -> str | None:
        """The name of the ConfigMap that its pods mount."""
        volumes = self.template.get("spec", {}).get("volumes", ())
        return next((each["configMap"]["name"] for each in volumes if each.get("configMap")), None)

    @property
    def templates(self) -> tuple[dict[str, Any], ...]:
        """The pod templates of the leader and the workers."""
        return (self.template, *((self.group.worker,) if self.group else ()))

    @property
    def simulated(self) -> bool:
        """Whether its pods run the sim engine, according to its inputs or its configuration."""
        engine = self.inputs.get("engine")
        return EngineName.SIM in (engine.get("name") if isinstance(engine, dict) else None, self._engine.name)

    @property
    def stall_timeout_seconds(self) -> int | None:
        """The stall timeout of its pods' liveness probe, or None if its inputs set no timeout."""
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
    def mode(self) -> ExecutionMode | None:
        """The execution mode of its pods, or None if its configuration names no known mode."""
        return self._engine.execution_mode

    @property
    def _engine(self) -> _Engine:
        try:
            return _Running.model_validate_json(self.config).engine
        except ValidationError:
            return _Engine()

    def matches_spec(self, inference: Inference) -> bool:
        """Return True if the revision runs what the spec asks for.

        A spec that names the mode in which the revision already runs matches too.
        """
        inputs = revision_inputs(inference)
        # Reading the inputs is slow, and needed only if another release stored them.
        if self.inputs == stored_inputs(inference) or are_same_inputs(self.inputs, inputs):
            return True
        asked = inputs.engine.execution_mode
        if asked is None or asked is not self.mode:
            return False
        unsaid = inputs.engine.model_copy(update={"execution_mode": None})
        return are_same_inputs(self.inputs, inputs.model_copy(update={"engine": unsaid}))

    @property
    def _class(self) -> dict[str, Any]:
        found = self.from_class
        return {"class": {"name": found.name, "values": dict(found.values)}} if found else {}

    @property
    def data(self) -> dict[str, Any]:
        """The data of its ControllerRevision. Stored data is immutable and is returned unchanged."""
        if self.kept is not None:
            return self.kept
        group = {"group": {"size": self.group.size, "worker": self.group.worker}} if self.group else {}
        return {"inputs": self.inputs, "template": self.template, "config": self.config, **group, **self._class}


def as_newest(revision: Revision, stored: tuple[Revision, ...]) -> Revision:
    """Return a revision with the highest number of all revisions, because it is selected to run now."""
    newest = newest_number(stored)
    if revision.number >= newest:
        return revision
    return replace(revision, number=newest + 1, former_numbers=(*revision.former_numbers, revision.number))


def newest_number(stored: tuple[Revision, ...]) -> int:
    """Return the highest number of the stored revisions, or 0 without a revision."""
    return max((revision.number for revision in stored), default=0)
