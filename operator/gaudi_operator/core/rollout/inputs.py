"""The inputs of a revision: fields that change what a pod runs, their stored form, and their comparison."""

from typing import Any

from pydantic import ValidationError

from gaudi_operator.api.base import ApiModel, ObjectName
from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Parallelism
from gaudi_operator.api.v1alpha1.bucketing import Bucketing
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Model
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.api.v1alpha1.server import Server
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.api.v1alpha1.warmup import RecipeCache, Warmup
from gaudi_operator.core.inference import Inference, SpecUnreadable, cache_on_inference
from gaudi_operator.core.text_formats import short_hash

VERSION = 4
"""The version of the stored form of inputs. Versions 1 to 3 were never released.

A release that changes the form raises this number and reads every released form, so that an operator upgrade restarts
no pods (docs/reference/api-policy.md).
"""


class RevisionInputs(ApiModel):
    """The fields of a spec that define a revision.

    Defaults of the installation, such as the image, are not inputs. They are resolved when a revision is created. Only
    the rendered template of the revision contains them.
    """

    class_name: ObjectName | None = None
    model: Model
    accelerator: Accelerator
    parallelism: Parallelism = Parallelism()
    engine: Engine = Engine()
    server: Server = Server()
    bucketing: Bucketing = Bucketing()
    warmup: Warmup = Warmup()
    recipe_cache: RecipeCache | None = None
    tracing: Tracing | None = None
    pod: Pod = Pod()
    restarted_at: str | None = None


@cache_on_inference
def revision_inputs(inference: Inference) -> RevisionInputs:
    """Return the revision inputs of the current spec."""
    spec = inference.spec
    return RevisionInputs(
        class_name=spec.class_name,
        model=spec.model,
        accelerator=spec.accelerator,
        parallelism=spec.parallelism,
        engine=spec.engine,
        server=spec.server,
        bucketing=spec.bucketing,
        warmup=spec.warmup,
        # Reset the retention policy of the cache volume, because this policy does not change pods.
        recipe_cache=spec.recipe_cache
        and spec.recipe_cache.model_copy(update={"retention_policy": RecipeCache().retention_policy}),
        tracing=spec.tracing,
        pod=spec.pod,
        restarted_at=inference.identity.restarted_at,
    )


def serialize_inputs(inputs: RevisionInputs) -> dict[str, Any]:
    """Return the inputs as a ControllerRevision stores them: fields of the spec and the version of the format."""
    return {**_dump_fields(inputs), "version": VERSION}


@cache_on_inference
def serialize_spec_inputs(inference: Inference) -> dict[str, Any]:
    """Return the inputs of the current spec as a ControllerRevision of this release stores them."""
    return serialize_inputs(revision_inputs(inference))


def revision_name(inputs: RevisionInputs) -> str:
    """Return the name of a revision: ten hex digits of the hash of its inputs."""
    return short_hash(_dump_fields(inputs))


def _dump_fields(inputs: RevisionInputs) -> dict[str, Any]:
    return inputs.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_inputs(stored: object) -> RevisionInputs:
    """Return the revision inputs that a ControllerRevision stores.

    A missing field gets its default, because a later release may have added the field. An unknown field is dropped,
    because a newer operator may have written it.

    Raises SpecUnreadable if another release wrote the inputs and this release cannot read them.
    """
    try:
        return RevisionInputs.model_validate(stored)
    except ValidationError as error:
        raise SpecUnreadable(
            "The revision was stored by another release of the operator in a form that this release cannot read."
        ) from error


def are_same_inputs(stored: object, desired: RevisionInputs) -> bool:
    """Return True if a revision with the `stored` inputs runs the same pods as a revision with the `desired` inputs.

    Therefore upgrades and downgrades of the operator or the CRD create no revision. See read_inputs().
    """
    try:
        return read_inputs(stored) == desired
    except SpecUnreadable:
        return False
