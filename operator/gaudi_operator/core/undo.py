"""Back to a kept revision by the spec: the patch that makes the spec wish what the revision was made from.

Whoever cannot patch the spec, because another hand holds it, sets spec.rollout.revision instead (docs/revisions.md,
Going back).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gaudi_operator.core.inputs import RevisionInputs
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest

_STALL = "stallTimeoutSeconds"
_RESTARTED = "restartedAt"
_NO_SECTIONS = (_STALL, _RESTARTED)


def undo_patch(resource: Manifest, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902) of `resource` that makes its spec wish the `inputs` of a ControllerRevision's data.

    Only what makes a revision is written: replicas, thresholds and the rollout's settings stay, and a pinned
    revision is let go. A section that the inputs do not know had its defaults when they were stored, so it goes.
    """
    return [*_sections(resource["spec"], inputs), *_readiness(resource["spec"], inputs), *_annotation(resource, inputs)]


def _sections(spec: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    aliases = [field.alias or name for name, field in RevisionInputs.model_fields.items()]
    known = [alias for alias in aliases if alias not in _NO_SECTIONS]
    for name in dict.fromkeys([*known, *(key for key in inputs if key not in _NO_SECTIONS)]):
        yield from _write(f"/spec/{name}", spec.get(name), inputs.get(name))
    if "revision" in spec.get("rollout", {}):
        yield {"op": "remove", "path": "/spec/rollout/revision"}


def _readiness(spec: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    was = spec.get("readiness") or {}
    others = {key: value for key, value in was.items() if key != _STALL}
    stored = {_STALL: inputs[_STALL]} if _STALL in inputs else {}
    yield from _write("/spec/readiness", was or None, {**others, **stored} or None)


def _annotation(resource: Manifest, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    was = resource["metadata"].get("annotations") or {}
    others = {key: value for key, value in was.items() if key != RESTARTED_AT_ANNOTATION}
    stored = {RESTARTED_AT_ANNOTATION: inputs[_RESTARTED]} if inputs.get(_RESTARTED) else {}
    yield from _write("/metadata/annotations", was or None, {**others, **stored} or None)


def _write(path: str, was: object, wished: object) -> Iterator[dict[str, Any]]:
    if was == wished:
        return
    yield {"op": "remove", "path": path} if wished is None else {"op": "add", "path": path, "value": wished}
