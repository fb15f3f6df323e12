"""The ControllerRevision: the memory of what was asked for, and of what was rendered from it."""

from typing import Any

from gaudi_operator.core.children.manifests.metadata import Object, child
from gaudi_operator.core.resource import Identity
from gaudi_operator.core.rollout.revision import failure_annotations
from gaudi_runtime.errors import Problem


def controller_revision(
    owner: Identity, revision: str, number: int, data: dict[str, Any], failure: Problem | None = None
) -> Object:
    """`data` is {inputs, template, config} and never changes; `number` grows each time the revision is to run."""
    name, body = f"{owner.name}-{revision}", {"data": data, "revision": number}
    return child("apps/v1", "ControllerRevision", name, owner, body, revision, failure_annotations(failure))
