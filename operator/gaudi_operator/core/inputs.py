"""Revision inputs: what changes what a pod runs, and the rule that compares them (docs/revisions.md)."""

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gaudi_operator.api.base import ApiModel, Seconds
from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Parallelism
from gaudi_operator.api.v1alpha1.bucketing import Bucketing
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Model
from gaudi_operator.api.v1alpha1.pod import Pod
from gaudi_operator.api.v1alpha1.warmup import Readiness, RecipeCache, Warmup
from gaudi_operator.core.canonical import short_hash
from gaudi_operator.core.inference import Inference


class RevisionInputs(ApiModel):
    """The parts of a resource that make a revision.

    The stall timeout is one of them, although it stands beside the thresholds: the runtime's own liveness
    judges by it. The default image of the installation is none: it is resolved when a revision is made and
    stands only in the revision's rendering.
    """

    model: Model
    accelerator: Accelerator
    parallelism: Parallelism = Parallelism()
    engine: Engine = Engine()
    bucketing: Bucketing = Bucketing()
    warmup: Warmup = Warmup()
    recipe_cache: RecipeCache = RecipeCache()
    pod: Pod = Pod()
    stall_timeout_seconds: Seconds = Readiness().stall_timeout_seconds
    restarted_at: str | None = None


def revision_inputs(inference: Inference) -> RevisionInputs:
    """The inputs that `inference` wishes now."""
    spec = inference.spec
    return RevisionInputs(
        model=spec.model,
        accelerator=spec.accelerator,
        parallelism=spec.parallelism,
        engine=spec.engine,
        bucketing=spec.bucketing,
        warmup=spec.warmup,
        recipe_cache=spec.recipe_cache,
        pod=spec.pod,
        stall_timeout_seconds=spec.readiness.stall_timeout_seconds,
        restarted_at=inference.identity.restarted_at,
    )


def stored_form(inputs: RevisionInputs) -> dict[str, Any]:
    """The inputs as they stand in a ControllerRevision."""
    return inputs.model_dump(mode="json", by_alias=True, exclude_none=True)


def revision_name(inputs: RevisionInputs) -> str:
    """Ten hex digits that name the revision of these inputs."""
    return short_hash(stored_form(inputs))


def same_inputs(stored: object, wished: BaseModel) -> bool:
    """Whether `wished` runs what a revision with the `stored` inputs runs.

    A field that is absent from the stored inputs is new since then: at its default it changes nothing. A stored
    field that this operator does not know is of a newer one and is not looked at. So neither an upgrade nor a
    step back of operator or CRD makes a revision.
    """
    if not isinstance(stored, dict):
        return False
    return all(
        _same_field(stored, field.alias or name, getattr(wished, name), field)
        for name, field in type(wished).model_fields.items()
    )


def _same_field(stored: dict[str, Any], key: str, wished: object, field: FieldInfo) -> bool:
    return _same(stored[key], wished) if key in stored else bool(wished == field.get_default())


def _same(stored: object, wished: object) -> bool:
    if isinstance(wished, BaseModel):
        return same_inputs(stored, wished)
    if isinstance(wished, tuple):
        return isinstance(stored, list) and len(stored) == len(wished) and all(map(_same, stored, wished))
    return stored == wished
