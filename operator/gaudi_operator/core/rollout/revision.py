"""Revisions: what one consists of, and the one that the spec asks for, kept or rendered (docs/how-to/revisions.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from gaudi_operator.core.notation import canonical_json
from gaudi_operator.core.observed import InstallationDefaults
from gaudi_operator.core.rendering.pod_template import pod_template, worker_template
from gaudi_operator.core.rendering.runtime_config import config_map_name, runtime_config
from gaudi_operator.core.resource import Inference, derived
from gaudi_operator.core.rollout.inputs import (
    as_kept,
    revision_inputs,
    revision_name,
    same_inputs,
    stored_form,
)
from gaudi_runtime.contract.base import Tolerant
from gaudi_runtime.contract.config import EngineName, ExecutionMode, plan_hash
from gaudi_runtime.errors import Problem


class _Engine(Tolerant):
    name: str | None = None
    execution_mode: ExecutionMode | None = None


class _Running(Tolerant):
    """The part of a RuntimeConfig that says which engine runs, and in which mode."""

    engine: _Engine = _Engine()


@dataclass(frozen=True)
class Group:
    """What a replica over several nodes is besides its leader: pods in sum, and the pod template of the others."""

    size: int
    worker: dict[str, Any]


@dataclass(frozen=True)
class FromClass:
    """What a revision got from the class of its resource: field of the spec -> value."""

    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Revision:
    """One revision: `number` orders them by when they were last to run, `inputs` made it, the rest was rendered.

    `kept` is the data of its ControllerRevision, if there is one.

    `template` is a pod template in wire form, that of the leader where there is a `group`; `config` is a RuntimeConfig
    as JSON text, because the API server may write a number of an object in another way and the text names a ConfigMap.
    """

    name: str
    number: int
    inputs: dict[str, Any]
    template: dict[str, Any]
    config: str
    failure: Problem | None = None
    created: str | None = None
    group: Group | None = None
    kept: dict[str, Any] | None = None
    from_class: FromClass | None = None

    @property
    def config_map(self) -> str | None:
        """Name of the ConfigMap that its pods mount."""
        volumes = self.template.get("spec", {}).get("volumes", ())
        return next((each["configMap"]["name"] for each in volumes if each.get("configMap")), None)

    @property
    def templates(self) -> tuple[dict[str, Any], ...]:
        """The pod templates of all its pods."""
        return (self.template, *((self.group.worker,) if self.group else ()))

    @property
    def simulated(self) -> bool:
        """Whether its pods have the sim engine, by its inputs or by what its pods read."""
        engine = self.inputs.get("engine")
        return EngineName.SIM in (engine.get("name") if isinstance(engine, dict) else None, self._engine.name)

    @property
    def stall_timeout_seconds(self) -> int | None:
        """What the liveness of its pods judges a standstill by; None where its inputs do not say."""
        warmup = self.inputs.get("warmup")
        seconds = warmup.get("stallTimeoutSeconds") if isinstance(warmup, dict) else None
        return seconds if isinstance(seconds, int) else None

    @property
    def learned_plan(self) -> dict[str, Any] | None:
        """The settings of a plan that was learned from traffic; None for any other plan."""
        bucketing = self.inputs.get("bucketing")
        optimal = bucketing.get("optimal") if isinstance(bucketing, dict) else None
        return bucketing if isinstance(optimal, dict) and optimal.get("traffic") else None

    @property
    def mode(self) -> ExecutionMode | None:
        """What its pods run in; None where its configuration says none that is known."""
        return self._engine.execution_mode

    @property
    def _engine(self) -> _Engine:
        try:
            return _Running.model_validate_json(self.config).engine
        except ValidationError:
            return _Engine()

    def is_of(self, inference: Inference) -> bool:
        """Whether it runs what the resource asks for. To name the mode that it runs in asks for nothing else."""
        inputs = revision_inputs(inference)
        # Reading them is slow, and needed only if another release kept them.
        if self.inputs == as_kept(inference) or same_inputs(self.inputs, inputs):
            return True
        asked = inputs.engine.execution_mode
        if asked is None or asked is not self.mode:
            return False
        unsaid = inputs.engine.model_copy(update={"execution_mode": None})
        return same_inputs(self.inputs, inputs.model_copy(update={"engine": unsaid}))

    @property
    def _class(self) -> dict[str, Any]:
        found = self.from_class
        return {"class": {"name": found.name, "values": dict(found.values)}} if found else {}

    @property
    def data(self) -> dict[str, Any]:
        """What its ControllerRevision stores: what stood there, for Kubernetes lets nobody change it."""
        if self.kept is not None:
            return self.kept
        group = {"group": {"size": self.group.size, "worker": self.group.worker}} if self.group else {}
        return {"inputs": self.inputs, "template": self.template, "config": self.config, **group, **self._class}


def desired_revision(
    inference: Inference,
    stored: tuple[Revision, ...],
    defaults: InstallationDefaults,
    filled: Inference | None = None,
    from_class: FromClass | None = None,
) -> Revision:
    """The revision that is asked for: the pinned one, a stored one of the spec's inputs, or a new one.

    A stored rendering is used as it is, even if this operator would render it otherwise: only changed inputs
    restart pods. A pinned revision that is not stored is why_not_kept()'s affair. `filled` is the resource with
    what its class gives, which is `from_class`: it is rendered, and the inputs remain what the spec says.
    """
    pinned = inference.spec.rollout.revision
    # Compared field by field and not by name: the name of a newer release hashes fields that an older one lacks.
    for revision in stored:
        if revision.name == pinned or (pinned is None and revision.is_of(inference)):
            return revision
    inputs = revision_inputs(inference)
    whole = filled or inference
    config = runtime_config(whole)
    text = canonical_json(config.model_dump(mode="json", by_alias=True, exclude_none=True))
    name = revision_name(inputs)
    hashed = plan_hash(config.bucketing, config.limits)
    template = pod_template(whole, name, hashed, config_map_name(inference.identity, text), defaults)
    # Rendered only here, once in the life of a revision: from now on the stored template is the truth.
    nodes = inference.spec.parallelism.nodes
    group = Group(nodes, worker_template(template)) if nodes > 1 else None
    return Revision(name, _newest(stored) + 1, stored_form(inputs), template, text, group=group, from_class=from_class)


def with_kept_mode(inference: Inference, stored: tuple[Revision, ...]) -> Inference:
    """With the execution mode of the stored revision of the spec's inputs: what runs is judged by what it runs in."""
    return _in_mode(inference, next((each.mode for each in stored if each.is_of(inference)), None))


@derived
def _in_mode(inference: Inference, mode: ExecutionMode | None) -> Inference:
    return replace(inference, kept_mode=mode)


def to_run(revision: Revision, stored: tuple[Revision, ...]) -> Revision:
    """The revision with the highest number of all, for it is the one to run now."""
    newest = _newest(stored)
    return revision if revision.number >= newest else replace(revision, number=newest + 1)


def why_not_kept(inference: Inference, stored: tuple[Revision, ...]) -> str | None:
    """The sentence about a pinned revision that is not stored; None when nothing or a kept one is pinned."""
    pinned, kept = inference.spec.rollout.revision, ", ".join(revision.name for revision in stored)
    if pinned is None or any(revision.name == pinned for revision in stored):
        return None
    others = f"name one of {kept}, or " if kept else ""
    return (
        f"spec.rollout.revision is {pinned}, which is not kept: {others}leave the field out so that pods run what the "
        "spec says."
    )


def _newest(stored: tuple[Revision, ...]) -> int:
    return max((revision.number for revision in stored), default=0)
