"""What `gaudi-plan` is asked about: a GaudiInference, a RuntimeConfig, or bare limits (docs/bucketing.md, Asking)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from gaudi_operator.cli.plan.bare_limits import read_bare_limits
from gaudi_operator.cli.plan.document import KIND, Document
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.coverage import uncovered
from gaudi_runtime.buckets.ignored import ignored_settings
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.buckets.release_1_22 import plan_1_22
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from gaudi_operator.core.inference import Inference
    from gaudi_runtime.contract.config import RuntimeConfig


@dataclass(frozen=True)
class PlanQuestion:
    """A policy and limits to plan for, and what else the document says.

    `kv_blocks` is None when no device has been measured, `config` when only bare limits are known, `inference` when
    the document is no GaudiInference.
    """

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int | None = None
    release: Literal["current", "1.22"] = "current"
    config: "RuntimeConfig | None" = None
    inference: "Inference | None" = None

    @property
    def blocks(self) -> int:
        """KV blocks to plan for: those given, or enough for `max_num_seqs` sequences of full length."""
        return self.kv_blocks or -(-self.limits.max_model_len // self.limits.block_size) * self.limits.max_num_seqs

    @property
    def warnings(self) -> tuple[str, ...]:
        """What had to be assumed, and what release 1.22 does not read."""
        ignored = ignored_settings(self.policy, self.limits) if self.release == "1.22" else ()
        assumed = (
            f"{self.blocks} KV blocks are assumed, enough for maxNumSeqs full sequences: "
            "the device's number is known after its memory split (--kv-blocks)"
        )
        return (*([] if self.kv_blocks else [assumed]), *ignored)

    def plan(self) -> BucketPlan:
        """What a server with this policy and these limits prepares. Raises RuntimeStartError in one of its forms."""
        if self.release == "1.22":
            return plan_1_22(self.limits, self.blocks)
        return make_plan(self.policy, self.limits, self.blocks)

    def warnings_about(self, plan: BucketPlan) -> tuple[str, ...]:
        """What had to be assumed, what the planner says, and which admissible batches have no bucket."""
        gaps = uncovered(plan, self.limits, self.blocks).sentences()
        return (*self.warnings, *plan.warnings, *gaps)

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
    from gaudi_operator.cli.plan.manifest import read_manifest
    from gaudi_operator.core.runtime_config import runtime_config

    inference = read_manifest(document)
    config = runtime_config(inference)
    return PlanQuestion(config.bucketing, config.limits, config=config, inference=inference)


def _from_runtime_config(document: Document) -> PlanQuestion:
    from gaudi_runtime.contract.config import RuntimeConfig

    config = RuntimeConfig.model_validate(document)
    return PlanQuestion(config.bucketing, config.limits, config=config)


def _from_bare_limits(document: Document) -> PlanQuestion:
    bare = read_bare_limits(document)
    return PlanQuestion(bare.policy, bare.limits, kv_blocks=bare.num_blocks, release=bare.release)


def _sentence(error: ValidationError, above: tuple[str, ...]) -> str:
    wrong = (
        f"{'.'.join(map(str, (*above, *item['loc']))) or 'document'}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors()[:3]
    )
    return f"the document is wrong: {'; '.join(wrong)}"
