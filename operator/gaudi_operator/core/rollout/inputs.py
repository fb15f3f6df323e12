"""The inputs of a revision: the fields that change what a pod runs, their stored form, and their comparison."""

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
from gaudi_operator.core.resource import Inference, SpecUnreadable, derived
from gaudi_operator.core.text_formats import short_hash

VERSION = 4
"""The version of the stored form of inputs. Versions 1 to 3 were never released.

A release that changes the form raises this number and reads every released form, so that an operator upgrade restarts
no pods (docs/reference/api-policy.md).
"""


class RevisionInputs(ApiModel):
    """The fields of a spec that make a revision.

    Installation defaults, such as the image, are not inputs. They are resolved when a revision is created, and only its
    rendering contains them.
    """

    class_name: ObjectName | None = None
    model: Model
    accelerator: Accelerator
    parallelism: Parallelism = Parallelism()
    engine: Engine = Engine()
    server: Server = Server()
    bucketing: Bucketing = Bucketing()
    warmup: Warmup = Warmup()
    recipe_cache: RecipeCache = RecipeCache()
    tracing: Tracing | None = None
    pod: Pod = Pod()
    restarted_at: str | None = None


@derived
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
        # The retention policy of the cache volume does not change pods.
        recipe_cache=spec.recipe_cache.model_copy(update={"retention_policy": RecipeCache().retention_policy}),
        tracing=spec.tracing,
        pod=spec.pod,
        restarted_at=inference.identity.restarted_at,
    )


def stored_form(inputs: RevisionInputs) -> dict[str, Any]:
    """Return the inputs as a ControllerRevision stores them: the spec's fields with the version of their form."""
    return {**_fields(inputs), "version": VERSION}


@derived
def stored_inputs(inference: Inference) -> dict[str, Any]:
    """Return the inputs of the current spec as a ControllerRevision of this release stores them."""
    return stored_form(revision_inputs(inference))


def revision_name(inputs: RevisionInputs) -> str:
    """Return the name that follows from the inputs of a revision: ten hex digits."""
    return short_hash(_fields(inputs))


def _fields(inputs: RevisionInputs) -> dict[str, Any]:
    return inputs.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_inputs(stored: object) -> RevisionInputs:
    """Return the revision inputs that a ControllerRevision stores.

    A missing field, which a later release added, gets its default. An unknown field, which a newer operator wrote, is
    dropped.

    Raises SpecUnreadable if this release cannot read the inputs that another release wrote.
    """
    try:
        return RevisionInputs.model_validate(stored)
    except ValidationError as error:
        raise SpecUnreadable(
            "The revision was stored by another release of the operator in a form that this release cannot read."
        ) from error


def are_same_inputs(stored: object, desired: RevisionInputs) -> bool:
    """Return True if a revision with the `stored` inputs runs the same pods as the `desired` inputs.

    Upgrades and downgrades of the operator or the CRD create no revision. See read_inputs().
    """
    try:
        return read_inputs(stored) == desired
    except SpecUnreadable:
        return False
