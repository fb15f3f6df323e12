"""Back to a kept revision by the spec: the patch that makes the spec wish what the revision was made from.

Whoever cannot patch the spec, because another hand holds it, sets spec.rollout.revision instead (docs/revisions.md,
Going back).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from gaudi_operator.core.inference import SpecUnreadable, read_inference
from gaudi_operator.core.inputs import RevisionInputs, revision_inputs
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest

_STALL = "stallTimeoutSeconds"
_RESTARTED = "restartedAt"


def undo_patch(resource: Manifest, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902) of `resource` that makes its spec wish the `inputs` of a ControllerRevision's data.

    Only what makes a revision and differs is written: replicas, thresholds and the rollout's settings stay, and a
    pinned revision is let go. Defaults are left out, for the rules of the API may ask whether a field was set at all.
    Raises SpecUnreadable when a release that this one does not understand wrote the spec or the inputs.
    """
    now, then = _said(revision_inputs(read_inference(resource))), _said(_read(inputs))
    return [
        *_sections(resource["spec"], now, then),
        *_readiness(resource["spec"], then),
        *_annotation(resource, then),
    ]


def _read(inputs: Mapping[str, Any]) -> RevisionInputs:
    try:
        return RevisionInputs.model_validate(inputs)
    except ValidationError as error:
        raise SpecUnreadable(
            "The revision was kept by another release, which wrote what this one cannot read."
        ) from error


def _said(inputs: RevisionInputs) -> dict[str, Any]:
    return inputs.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _sections(spec: Mapping[str, Any], now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys([*now, *then]):
        if name not in (_STALL, _RESTARTED) and now.get(name) != then.get(name):
            yield from _write(f"/spec/{name}", spec.get(name), then.get(name))
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
