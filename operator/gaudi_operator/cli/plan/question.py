"""What `gaudi-plan` is asked about: a GaudiInference, a RuntimeConfig, or bare limits (docs/bucketing.md, Asking)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import ValidationError

from gaudi_operator.cli.plan.document import KIND, Document, read_manifest
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.coverage import uncovered
from gaudi_runtime.buckets.old_releases import plan_1_22, read_bare_limits
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.buckets.ranges import ignored_settings
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import quoted

if TYPE_CHECKING:
    from gaudi_operator.core.resource import Inference
    from gaudi_runtime.contract.config import RuntimeConfig


class EstimatedBlocks(NamedTuple):
    """KV blocks that a described card would have for a known model, and where that figure comes from."""

    blocks: int
    source: str


@dataclass(frozen=True)
class PlanQuestion:
    """A policy and limits to plan for, and what else the document says.

    `kv_blocks` is None when no device has been measured, `estimated` when its blocks cannot be forecast, `config` when
    only bare limits are known, `inference` when the document is no GaudiInference.
    """

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int | None = None
    estimated: EstimatedBlocks | None = None
    release: Literal["current", "1.22"] = "current"
    config: "RuntimeConfig | None" = None
    inference: "Inference | None" = None

    @property
    def blocks(self) -> int:
        """KV blocks to plan for: those given, or estimated, or enough for `max_num_seqs` sequences of full length."""
        if self.kv_blocks:
            return self.kv_blocks
        if self.estimated:
            return self.estimated.blocks
        return -(-self.limits.max_model_len // self.limits.block_size) * self.limits.max_num_seqs

    @property
    def warnings(self) -> tuple[str, ...]:
        """What had to be assumed, what the engine does not read, and what neither release 1.22 nor unified does."""
        unplanned = self.release == "1.22" or self.policy.strategy is Strategy.UNIFIED
        ignored = ignored_settings(self.policy, self.limits) if unplanned else ()
        return (*([] if self.kv_blocks else [self._blocks_warning()]), *self._unread_settings(), *ignored)

    def _unread_settings(self) -> tuple[str, ...]:
        if self.config is None:
            return ()
        from gaudi_runtime.knobs.check import ignored_knobs

        return tuple(ignored_knobs(self.config))

    def plan(self) -> BucketPlan:
        """What a server with this policy and these limits prepares. Raises RuntimeStartError in one of its forms."""
        if self.release == "1.22":
            return plan_1_22(self.limits, self.blocks)
        return make_plan(self.policy, self.limits, self.blocks)

    def warnings_about(self, plan: BucketPlan) -> tuple[str, ...]:
        """What had to be assumed, what the planner says, and which admissible batches have no bucket."""
        gaps = uncovered(plan, self.limits, self.blocks).sentences()
        return (*self.warnings, *plan.warnings, *gaps)

    def _blocks_warning(self) -> str:
        said = "assumed, enough for maxNumSeqs full sequences"
        if self.estimated:
            said = f"estimated from {self.estimated.source}"
        return f"{self.blocks} KV blocks are {said}: the device's number is known after its memory split (--kv-blocks)"

    def with_bucket_file(self, text: str) -> "PlanQuestion":
        """The same question with the buckets of a file."""
        policy = self.policy.model_copy(update={"strategy": Strategy.FILE, "file": text})
        return replace(self, policy=policy)


def read_question(document: Document) -> PlanQuestion:
    """The question in a document. Raises ConfigError with one sentence."""
    try:
        if document.get("kind") == KIND:
            return _from_manifest(document)
        if "engine" in document or "limits" in document:
            return _from_runtime_config(document)
        return _from_bare_limits(document)
    except ValidationError as error:
        raise ConfigError(_sentence(error, ("spec",) if document.get("kind") == KIND else ())) from error


def _from_manifest(document: Document) -> PlanQuestion:
    from gaudi_operator.core.admission.checks import why_settings_are_wrong
    from gaudi_operator.core.admission.review import outlook
    from gaudi_operator.core.children.runtime_config import runtime_config

    inference = read_manifest(document)
    wrong = why_settings_are_wrong(inference)
    if wrong:
        raise ConfigError(wrong.removesuffix("."))
    config, found = runtime_config(inference), outlook(inference)
    estimate = found.estimate if found else None
    estimated = EstimatedBlocks(found.kv_blocks, estimate.source) if found and estimate else None
    return PlanQuestion(config.bucketing, config.limits, estimated=estimated, config=config, inference=inference)


def _from_runtime_config(document: Document) -> PlanQuestion:
    from gaudi_runtime.contract.config import RuntimeConfig
    from gaudi_runtime.knobs.render import why_not_rendered

    config = RuntimeConfig.model_validate(document)
    wrong = why_not_rendered(config.engine)
    if wrong:
        raise ConfigError(wrong)
    return PlanQuestion(config.bucketing, config.limits, config=config)


def _from_bare_limits(document: Document) -> PlanQuestion:
    bare = read_bare_limits(document)
    return PlanQuestion(bare.policy, bare.limits, kv_blocks=bare.num_blocks, release=bare.release)


def _sentence(error: ValidationError, above: tuple[str, ...]) -> str:
    wrong = (
        f"{_place(above, item['loc'])}: {item['msg'].removeprefix('Value error, ')}" for item in error.errors()[:3]
    )
    return f"the document is wrong: {'; '.join(wrong)}"


def _place(above: tuple[str, ...], loc: tuple[str | int, ...]) -> str:
    return ".".join(quoted(str(part)) for part in (*above, *loc)) or "document"
