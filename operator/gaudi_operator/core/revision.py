"""Revisions: found among the stored ControllerRevisions by their inputs, or rendered anew (docs/revisions.md)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gaudi_operator.core.canonical import canonical_json
from gaudi_operator.core.defaults import InstallationDefaults
from gaudi_operator.core.failure import read_failure
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.inputs import revision_inputs, revision_name, same_inputs, stored_form
from gaudi_operator.core.manifests.config_map import config_map_name
from gaudi_operator.core.manifests.pod_template import pod_template, worker_template
from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.runtime_config import runtime_config
from gaudi_runtime.contract.config import plan_hash
from gaudi_runtime.problem import Problem


@dataclass(frozen=True)
class Group:
    """What a replica over several nodes is besides its leader: pods in sum, and the pod template of the others."""

    size: int
    worker: dict[str, Any]


@dataclass(frozen=True)
class Revision:
    """One revision: `number` orders them by when they were last to run, `inputs` made it, the rest was rendered.

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

    @property
    def config_map(self) -> str | None:
        """Name of the ConfigMap that its pods mount."""
        volumes = self.template.get("spec", {}).get("volumes", ())
        return next((each["configMap"]["name"] for each in volumes if "configMap" in each), None)

    @property
    def host_paths(self) -> list[str]:
        """The folders of their nodes that its pods mount."""
        templates = (self.template, *((self.group.worker,) if self.group else ()))
        volumes = (volume for each in templates for volume in each.get("spec", {}).get("volumes") or ())
        return sorted({str(each["hostPath"].get("path")) for each in volumes if each.get("hostPath")})

    @property
    def data(self) -> dict[str, Any]:
        """What its ControllerRevision stores."""
        group = {"group": {"size": self.group.size, "worker": self.group.worker}} if self.group else {}
        return {"inputs": self.inputs, "template": self.template, "config": self.config, **group}


def stored_revisions(manifests: Iterable[Manifest]) -> tuple[Revision, ...]:
    """The revisions of the ControllerRevisions that are not being deleted, newest first."""
    alive = [each for each in manifests if "deletionTimestamp" not in each["metadata"]]
    return tuple(sorted(map(_read, alive), key=lambda revision: revision.number, reverse=True))


def _read(manifest: Manifest) -> Revision:
    data = manifest.get("data") or {}
    return Revision(
        name=manifest["metadata"]["labels"][REVISION_LABEL],
        number=manifest["revision"],
        inputs=data.get("inputs", {}),
        template=data.get("template", {}),
        config=data.get("config", ""),
        group=Group(**data["group"]) if "group" in data else None,
        failure=read_failure(manifest["metadata"].get("annotations") or {}),
        created=manifest["metadata"].get("creationTimestamp"),
    )


def wished_revision(inference: Inference, stored: tuple[Revision, ...], defaults: InstallationDefaults) -> Revision:
    """The revision that is asked for: the pinned one, a stored one of the spec's inputs, or a new one.

    A stored rendering is used as it is, even if this operator would render it otherwise: only changed inputs
    restart pods. A pinned revision that is not stored is why_not_kept()'s affair.
    """
    inputs, pinned = revision_inputs(inference), inference.spec.rollout.revision
    for revision in stored:
        if revision.name == pinned or (pinned is None and same_inputs(revision.inputs, inputs)):
            return revision
    config = runtime_config(inference)
    text = canonical_json(config.model_dump(mode="json", by_alias=True, exclude_none=True))
    name = revision_name(inputs)
    hashed = plan_hash(config.bucketing, config.limits)
    template = pod_template(inference, name, hashed, config_map_name(inference.identity, text), defaults)
    nodes = inference.spec.parallelism.nodes
    group = Group(nodes, worker_template(template)) if nodes > 1 else None
    return Revision(name, _newest(stored) + 1, stored_form(inputs), template, text, group=group)


def to_run(revision: Revision, stored: tuple[Revision, ...]) -> Revision:
    """The revision with the highest number of all, for it is the one to run now."""
    newest = _newest(stored)
    return revision if revision.number >= newest else replace(revision, number=newest + 1)


def why_not_kept(inference: Inference, stored: tuple[Revision, ...]) -> str | None:
    """The sentence about a pinned revision that is not stored; None when nothing or a kept one is pinned."""
    pinned, kept = inference.spec.rollout.revision, ", ".join(revision.name for revision in stored)
    if pinned is None or any(revision.name == pinned for revision in stored):
        return None
    return (
        f"spec.rollout.revision is {pinned}, which is not kept: name one of {kept or 'none'}, or leave the field out "
        "so that pods run what the spec says."
    )


def _newest(stored: tuple[Revision, ...]) -> int:
    return max((revision.number for revision in stored), default=0)
