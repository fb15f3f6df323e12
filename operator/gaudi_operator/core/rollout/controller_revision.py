"""Revisions as stored in ControllerRevisions, with their inputs, rendered templates and history.

Annotations store the history. A stored failure prevents operators from retrying the revision (docs/how-to/revisions.md,
When a revision fails). Former numbers are stored because users may refer to a number from an older list. Commands can
then report the current number.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from gaudi_operator.core.names import (
    FAILURE_ANNOTATION,
    FORMER_NUMBERS_ANNOTATION,
    REVISION_LABEL,
)
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.revision import Revision, RevisionClassDefaults, RevisionPodGroup
from gaudi_operator.core.text_formats import format_canonical_json
from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.errors import Problem

MAX_REASON, MAX_MESSAGE, MAX_FORMER_NUMBERS = 64, 1024, 10


def controller_revision_annotations(revision: Revision) -> dict[str, str]:
    """Return the annotations of the ControllerRevision, which store the failure and the former numbers."""
    former_numbers = ",".join(map(str, revision.former_numbers[-MAX_FORMER_NUMBERS:]))
    return {
        **failure_annotations(revision.failure),
        **({FORMER_NUMBERS_ANNOTATION: former_numbers} if former_numbers else {}),
    }


def failure_annotations(failure: Problem | None) -> dict[str, str]:
    """Return the annotations that record a failure in a ControllerRevision, or no annotations without a failure."""
    if failure is None:
        return {}
    record = Problem(failure.reason[:MAX_REASON], failure.message[:MAX_MESSAGE])
    return {FAILURE_ANNOTATION: format_canonical_json({"reason": record.reason, "message": record.message})}


def read_failure(annotations: Mapping[str, str]) -> Problem | None:
    """Return the recorded failure. If the text of the annotation is not a record, the text becomes the message."""
    text = annotations.get(FAILURE_ANNOTATION)
    if text is None:
        return None
    try:
        record = json.loads(text)
        failure = Problem(str(record["reason"])[:MAX_REASON], str(record["message"])[:MAX_MESSAGE])
        # A lone surrogate is valid in JSON, but makes the status write fail. encode() raises ValueError for such a
        # text.
        return Problem(*(part.encode().decode() for part in (failure.reason, failure.message)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return Problem("MarkedFailed", text[:MAX_MESSAGE])


_MOST_NUMBER = 2**62
"""The limit of revision numbers. The next number must also fit into 64 bits."""

_MOST_FORMER_TEXT = MAX_FORMER_NUMBERS * len(f"{_MOST_NUMBER},")
"""The maximum length of recorded former numbers. An annotation may have 256 KiB."""


def _read_former_numbers(annotations: Mapping[str, str]) -> tuple[int, ...]:
    """Return the recorded former numbers, oldest first. Users may write other texts, which are skipped."""
    parts = annotations.get(FORMER_NUMBERS_ANNOTATION, "")[:_MOST_FORMER_TEXT].split(",")
    return tuple(int(part) for part in parts if part.isascii() and part.isdecimal())[-MAX_FORMER_NUMBERS:]


_MOST_VOLUMES = 1_000
"""The maximum number of volumes. Pods of the operator have far fewer volumes, and every reconcile reads all of them."""


class _ObjectReference(TolerantModel):
    name: str


class _HostPath(TolerantModel):
    path: str


class _ClaimReference(TolerantModel):
    claim_name: str


class _Volume(TolerantModel):
    config_map: _ObjectReference | None = None
    host_path: _HostPath | None = None
    persistent_volume_claim: _ClaimReference | None = None


class _Variable(TolerantModel):
    name: str


class _Container(TolerantModel):
    name: str
    image: str
    env: tuple[_Variable, ...] = ()


class _PodSpec(TolerantModel):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    volumes: Annotated[tuple[_Volume, ...], Field(max_length=_MOST_VOLUMES)] = ()
    service_account_name: str | None = None


class _PodTemplate(TolerantModel):
    spec: _PodSpec = _PodSpec()


class _GroupData(TolerantModel):
    size: int
    worker: _PodTemplate


class _ClassData(TolerantModel):
    name: str
    values: dict[str, Any] = Field({})


class _RevisionData(TolerantModel):
    """The fields of a ControllerRevision's data that the operator itself reads.

    All other fields are copied to pods unchanged.
    """

    inputs: dict[str, Any] = Field({})
    template: _PodTemplate = _PodTemplate()
    config: str = ""
    group: _GroupData | None = None
    class_: Annotated[_ClassData | None, Field(alias="class")] = None


def read_controller_revisions(manifests: Iterable[Manifest]) -> tuple[Revision, ...]:
    """Return the stored revisions, newest first. ControllerRevisions that are being deleted are left out."""
    live = [manifest for manifest in manifests if "deletionTimestamp" not in manifest["metadata"]]
    return tuple(sorted(filter(None, map(_read_revision, live)), key=lambda revision: revision.number, reverse=True))


def _read_revision(manifest: Manifest) -> Revision | None:
    """Return the revision, or None if the ControllerRevision was not written by an operator but by a user."""
    name, number = (manifest["metadata"].get("labels") or {}).get(REVISION_LABEL), manifest.get("revision", 0)
    data, annotations = manifest.get("data") or {}, manifest["metadata"].get("annotations") or {}
    try:
        _RevisionData.model_validate(data)
    except ValidationError:
        return None
    if not name or not 0 <= number < _MOST_NUMBER:
        return None
    return Revision(
        name=name,
        number=number,
        inputs=data.get("inputs", {}),
        template=data.get("template", {}),
        config=data.get("config", ""),
        group=RevisionPodGroup(data["group"]["size"], data["group"]["worker"]) if data.get("group") else None,
        failure=read_failure(annotations),
        created_at=manifest["metadata"].get("creationTimestamp"),
        former_numbers=_read_former_numbers(annotations),
        stored_data=data,
        class_defaults=RevisionClassDefaults(data["class"]["name"], data["class"].get("values", {}))
        if data.get("class")
        else None,
    )
