"""The inputs of a revision: what changes what a pod runs, how that is kept, and when two of them are the same.

A ControllerRevision keeps them with the version of their form, for releases rename fields. An operator reads those of
every release before it: CONVERTERS lead from each version to the next.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from gaudi_operator.api.base import ApiModel, ObjectName, Seconds
from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Parallelism
from gaudi_operator.api.v1alpha1.bucketing import Bucketing
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Model
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.api.v1alpha1.renamed import with_present_names
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.api.v1alpha1.warmup import Readiness, RecipeCache, Warmup
from gaudi_operator.core.notation import short_hash
from gaudi_operator.core.resource import Inference, SpecUnreadable

CONVERTERS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (with_present_names, with_present_names)
"""The first reads what release 0.1.0 has kept, without a version, and gives what version 2 says.

Version 3 has settings in place of eight fields, and no number of cards.
"""

VERSION = len(CONVERTERS) + 1


class RevisionInputs(ApiModel):
    """The parts of a resource that make a revision.

    The stall timeout is one of them, although it stands beside the thresholds: the runtime's own liveness
    judges by it. The defaults of the installation, such as the image, are none: they are resolved when a revision is
    made and stand only in the revision's rendering.
    """

    class_name: ObjectName | None = None
    model: Model
    accelerator: Accelerator
    parallelism: Parallelism = Parallelism()
    engine: Engine = Engine()
    bucketing: Bucketing = Bucketing()
    warmup: Warmup = Warmup()
    recipe_cache: RecipeCache = RecipeCache()
    tracing: Tracing | None = None
    pod: Pod = Pod()
    stall_timeout_seconds: Seconds = Readiness().stall_timeout_seconds
    restarted_at: str | None = None


def revision_inputs(inference: Inference) -> RevisionInputs:
    """The inputs that `inference` asks for now."""
    return inference.once("revision inputs", lambda: _revision_inputs(inference))


def _revision_inputs(inference: Inference) -> RevisionInputs:
    spec = inference.spec
    return RevisionInputs(
        class_name=spec.class_name,
        model=spec.model,
        accelerator=spec.accelerator,
        parallelism=spec.parallelism,
        engine=spec.engine,
        bucketing=spec.bucketing,
        warmup=spec.warmup,
        # What becomes of the volume in the end concerns no pod.
        recipe_cache=spec.recipe_cache.model_copy(update={"retention_policy": RecipeCache().retention_policy}),
        tracing=spec.tracing,
        pod=spec.pod,
        stall_timeout_seconds=spec.readiness.stall_timeout_seconds,
        restarted_at=inference.identity.restarted_at,
    )


def stored_form(inputs: RevisionInputs) -> dict[str, Any]:
    """The inputs as they stand in a ControllerRevision, with the version of their form."""
    return {**_fields(inputs), "version": VERSION}


def as_kept(inference: Inference) -> dict[str, Any]:
    """The inputs that `inference` asks for now as they are read from a ControllerRevision of this release."""
    return inference.once("inputs as kept", lambda: present_form(stored_form(revision_inputs(inference))))


def revision_name(inputs: RevisionInputs) -> str:
    """Ten hex digits that name the revision of these inputs."""
    return short_hash(_fields(inputs))


def _fields(inputs: RevisionInputs) -> dict[str, Any]:
    # Not as JSON of a resource, which has a spelling of its own: these are the words that every release reads.
    found: dict[str, Any] = to_jsonable_python(inputs.model_dump(by_alias=True, exclude_none=True))
    return found


def present_form(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs that some release has `stored`, as this one writes them; those of a newer one stay as they are."""
    # The version stands among the inputs: release 0.1.0 writes those back as a whole, and nothing that is beside them.
    version, result = stored.get("version"), dict(stored)
    for convert in CONVERTERS[version - 1 if isinstance(version, int) and version > 0 else 0 :]:
        result = convert(result)
    return result


def read_inputs(inputs: Mapping[str, Any]) -> RevisionInputs:
    """Inputs in their present form. Raises SpecUnreadable when they are of a release that this one does not know."""
    try:
        return RevisionInputs.model_validate(inputs)
    except ValidationError as error:
        raise SpecUnreadable(
            "The revision was kept by another release, which wrote what this one cannot read."
        ) from error


def as_a_spec_says(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs in their present form as they are written in a spec now; those of a release that is not known stay."""
    try:
        known = read_inputs(inputs)
    except SpecUnreadable:
        return dict(inputs)
    return known.model_dump(mode="json", by_alias=True, exclude_unset=True)


def same_inputs(stored: object, desired: BaseModel) -> bool:
    """Whether `desired` runs what a revision with the `stored` inputs, in their present form, runs.

    A field that is absent from the stored inputs is new since then: at its default it changes nothing. A stored
    field that this operator does not know is of a newer one and is not looked at. So neither an upgrade nor a
    step back of operator or CRD makes a revision.
    """
    if not isinstance(stored, dict):
        return False
    return all(
        _same_field(stored, field.alias or name, getattr(desired, name), field)
        for name, field in type(desired).model_fields.items()
    )


def _same_field(stored: dict[str, Any], key: str, desired: object, field: FieldInfo) -> bool:
    return _same(stored[key], desired) if key in stored else bool(desired == field.get_default())


def _same(stored: object, desired: object) -> bool:
    if isinstance(desired, BaseModel):
        return same_inputs(stored, desired)
    if isinstance(desired, tuple):
        return isinstance(stored, list) and len(stored) == len(desired) and all(map(_same, stored, desired))
    return stored == desired
