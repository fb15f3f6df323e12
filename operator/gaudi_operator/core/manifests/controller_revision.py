"""The ControllerRevision: the memory of what was asked for, and of what was rendered from it."""

from typing import Any

from gaudi_operator.core.inference import Identity
from gaudi_operator.core.manifests.metadata import Object, child


def controller_revision(owner: Identity, revision: str, number: int, data: dict[str, Any]) -> Object:
    """`data` is {inputs, template, config} and never changes; `number` grows each time the revision is wished."""
    name = f"{owner.name}-{revision}"
    return child("apps/v1", "ControllerRevision", name, owner, {"data": data, "revision": number}, revision)
