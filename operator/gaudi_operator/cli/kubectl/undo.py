"""The undo patch, which changes a spec back to the inputs of a stored revision.

Users who cannot patch the spec, because another tool owns it, set spec.rollout.revision instead
(docs/how-to/revisions.md, Going back).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gaudi_operator.api.base import as_written
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_inference
from gaudi_operator.core.rollout.inputs import read_inputs, revision_inputs

_RESTARTED = "restartedAt"


def undo_patch(resource: Manifest, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that changes the spec of `resource` to the `inputs` of a ControllerRevision.

    The patch writes only inputs that differ, and removes a pinned revision. Replicas, thresholds and rollout settings
    stay. Defaults are left out, because rules of the API may depend on whether a field was set. Raises SpecUnreadable
    if another release wrote the spec or the inputs, and this release cannot read them.
    """
    now, then = as_written(revision_inputs(read_inference(resource))), as_written(read_inputs(inputs))
    return [
        *_sections(resource["spec"], now, then),
        *_annotation(resource, then),
    ]


def _sections(spec: Mapping[str, Any], now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    names = [name for name in dict.fromkeys([*now, *then]) if name != _RESTARTED]
    differ = {name for name in names if now.get(name) != then.get(name)}
    for name in sorted(differ):
        yield from _write(f"/spec/{name}", spec.get(name), then.get(name))
    if "revision" in spec.get("rollout", {}):
        yield {"op": "remove", "path": "/spec/rollout/revision"}


def _annotation(resource: Manifest, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    was = resource["metadata"].get("annotations") or {}
    others = {key: value for key, value in was.items() if key != RESTARTED_AT_ANNOTATION}
    stored = {RESTARTED_AT_ANNOTATION: inputs[_RESTARTED]} if inputs.get(_RESTARTED) else {}
    yield from _write("/metadata/annotations", was or None, {**others, **stored} or None)


def _write(path: str, was: object, desired: object) -> Iterator[dict[str, Any]]:
    if was == desired:
        return
    yield {"op": "remove", "path": path} if desired is None else {"op": "add", "path": path, "value": desired}
