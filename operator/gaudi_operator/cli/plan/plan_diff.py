"""What changes between two plans, and between the questions that they answer. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase

RECIPES_DEPEND_ON = (
    "model.source",
    "model.path",
    "model.dtype",
    "model.hub",
    "model.kvCacheDtype",
    "model.quantization",
    "model.adapters",
    "model.maxAdapterRank",
    "model.maxAdaptersPerBatch",
    "accelerator.generation",
    "parallelism",
    "engine.name",
    "engine.image",
    "engine.executionMode",
    "engine.compileBackend",
    "engine.device",
    "engine.card",
    "engine.layersPerGraph",
    "engine.blockSize",
    "engine.contiguousPagedAttention",
    "limits.blockSize",
    "limits.contiguousPagedAttention",
    "release",
)
"""Fields that change what a compiled recipe holds: after such a change none can be used again
(docs/warmup.md, Recipe cache)."""


@dataclass(frozen=True)
class Change:
    """A field with its value before and after; None where it is not set."""

    path: str
    old: Any
    new: Any

    @property
    def discards_recipes(self) -> bool:
        """Whether recipes that were compiled before are of no use after it."""
        return any(self.path == field or self.path.startswith(f"{field}.") for field in RECIPES_DEPEND_ON)


@dataclass(frozen=True)
class PhaseDiff:
    """The buckets of one phase, each list in plan order."""

    kept: tuple[Bucket, ...]
    added: tuple[Bucket, ...]
    dropped: tuple[Bucket, ...]


@dataclass(frozen=True)
class PlanDiff:
    """Two questions and their plans, compared. `restarts` is None where the questions do not say who would restart."""

    changes: tuple[Change, ...]
    restarts: bool | None
    phases: Mapping[BucketPhase, PhaseDiff]

    @property
    def discarding(self) -> tuple[str, ...]:
        """Paths of the changes after which every recipe is compiled anew."""
        return tuple(change.path for change in self.changes if change.discards_recipes)

    @property
    def compiled_anew(self) -> int:
        """Buckets that even a full recipe cache of the old plan does not spare."""
        return sum(len(each.added) + len(each.kept) * bool(self.discarding) for each in self.phases.values())

    @property
    def planned(self) -> int:
        """Buckets of the new plan: what is compiled without a recipe cache."""
        return sum(len(each.kept) + len(each.added) for each in self.phases.values())


def compare(old: PlanQuestion, new: PlanQuestion, old_plan: BucketPlan, new_plan: BucketPlan) -> PlanDiff:
    """What the new question changes against the old one."""
    return PlanDiff(
        changes=tuple(_changes("", _settings(old), _settings(new))),
        restarts=_restarts(old, new),
        phases={phase: _phase(old_plan.of(phase), new_plan.of(phase)) for phase in BucketPhase},
    )


def _phase(old: tuple[Bucket, ...], new: tuple[Bucket, ...]) -> PhaseDiff:
    before, after = set(old), set(new)
    return PhaseDiff(
        kept=tuple(bucket for bucket in new if bucket in before),
        added=tuple(bucket for bucket in new if bucket not in before),
        dropped=tuple(bucket for bucket in old if bucket not in after),
    )


def _settings(question: PlanQuestion) -> dict[str, Any]:
    """Everything the document says, with defaults, as it is written in that kind of document."""
    source = question.inference.spec if question.inference else question.config
    if source:
        return source.model_dump(mode="json", by_alias=True, exclude_none=True)
    limits = question.limits.model_dump(mode="json", by_alias=True)
    bucketing = question.policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"limits": limits, "bucketing": bucketing, "release": question.release}


def _changes(path: str, old: object, new: object) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _changes(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif old != new:
        yield Change(path, old, new)


def _restarts(old: PlanQuestion, new: PlanQuestion) -> bool | None:
    """Whether pods are replaced (docs/revisions.md); only two GaudiInferences can tell."""
    if old.inference is None or new.inference is None:
        return None
    from gaudi_operator.core.rollout.revision import revision_inputs, same_inputs, stored_form

    return not same_inputs(stored_form(revision_inputs(old.inference)), revision_inputs(new.inference))
