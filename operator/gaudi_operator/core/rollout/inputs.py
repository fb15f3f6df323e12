"""The inputs of a revision: what changes what a pod runs, how that is kept, and when two of them are the same."""

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
from gaudi_operator.core.notation import short_hash
from gaudi_operator.core.resource import Inference, SpecUnreadable, derived

VERSION = 4
"""The form in which a ControllerRevision keeps inputs. Forms 1 to 3 were never released.

A release that changes the form raises this number and reads every form that was released, so that an operator upgrade
restarts nothing (docs/reference/api-policy.md).
"""


class RevisionInputs(ApiModel):
    """The parts of a resource that make a revision.

    Defaults of the installation, such as the image, are not among them: they are resolved when a revision is made, and
    only its rendering has them.
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
    """Return the inputs that `inference` asks for now."""
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
        # What becomes of the volume in the end concerns no pod.
        recipe_cache=spec.recipe_cache.model_copy(update={"retention_policy": RecipeCache().retention_policy}),
        tracing=spec.tracing,
        pod=spec.pod,
        restarted_at=inference.identity.restarted_at,
    )


def stored_form(inputs: RevisionInputs) -> dict[str, Any]:
    """Return the inputs as a ControllerRevision keeps them: as a spec has them, with the version of their form."""
    return {**_fields(inputs), "version": VERSION}


@derived
def as_kept(inference: Inference) -> dict[str, Any]:
    """Return the inputs that `inference` asks for now as a ControllerRevision of this release keeps them."""
    return stored_form(revision_inputs(inference))


def revision_name(inputs: RevisionInputs) -> str:
    """Return ten hex digits that name the revision of these inputs."""
    return short_hash(_fields(inputs))


def _fields(inputs: RevisionInputs) -> dict[str, Any]:
    return inputs.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_inputs(stored: object) -> RevisionInputs:
    """Return the inputs that a ControllerRevision keeps.

    A field that it lacks was added since then and has its default. A field that this operator does not know is of a
    newer operator and is dropped.

    Raises SpecUnreadable if another release wrote what this one cannot read.
    """
    try:
        return RevisionInputs.model_validate(stored)
    except ValidationError as error:
        raise SpecUnreadable(
            "The revision was kept by another release, which wrote what this one cannot read."
        ) from error


def same_inputs(stored: object, desired: RevisionInputs) -> bool:
    """Return whether `desired` runs what a revision with the `stored` inputs runs.

    Neither an upgrade nor a downgrade of operator or CRD makes a revision: read_inputs() names the reasons.
    """
    try:
        return read_inputs(stored) == desired
    except SpecUnreadable:
        return False
