"""What `gaudi-plan` is asked about: a RuntimeConfig, or the bare limits of a model (docs/bucketing.md, Asking)."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.env import policy_from_env
from gaudi_runtime.buckets.planner import make_plan
from gaudi_runtime.buckets.release_1_22 import plan_1_22
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.errors import ConfigError

MAX_DOCUMENT_BYTES = 1024 * 1024
MAX_BUCKET_FILE_BYTES = 64 * 1024


@dataclass(frozen=True)
class PlanQuestion:
    """A policy and limits to plan for; `kv_blocks` None when no device has been measured."""

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int | None
    release: Literal["current", "1.22"] = "current"

    @property
    def blocks(self) -> int:
        """KV blocks to plan for: those given, or enough for `max_num_seqs` sequences of full length."""
        return self.kv_blocks or -(-self.limits.max_model_len // self.limits.block_size) * self.limits.max_num_seqs

    @property
    def warnings(self) -> tuple[str, ...]:
        """What had to be assumed."""
        if self.kv_blocks:
            return ()
        return (
            f"{self.blocks} KV blocks are assumed, enough for maxNumSeqs full sequences: "
            "the device's number is known after its memory split (--kv-blocks)",
        )

    def plan(self) -> BucketPlan:
        """What a server with this policy and these limits prepares. Raises RuntimeStartError in one of its forms."""
        if self.release == "1.22":
            return plan_1_22(self.limits, self.blocks)
        return make_plan(self.policy, self.limits, self.blocks)


Whole = Annotated[int, Strict(), Field(ge=1, le=16_777_216)]


class _BareLimits(BaseModel):
    """The flat form of the recorded plans: snake_case names of the public planner."""

    model_config = ConfigDict(extra="forbid")

    strategy: Strategy = Strategy.EXPONENTIAL
    release: Literal["current", "1.22"] = "current"
    max_model_len: Whole
    max_num_seqs: Whole
    max_num_prefill_seqs: Whole = 1
    max_num_batched_tokens: Whole
    num_blocks: Whole | None = None
    block_size: Whole = 128
    contiguous_pa: Annotated[bool, Strict()] = True
    prefix_caching: Annotated[bool, Strict()] = True
    env: dict[str, str | int] = Field(default_factory=dict)
    file: str | None = None


def ask(file: Path, bucket_file: Path | None = None, kv_blocks: int | None = None) -> PlanQuestion:
    """The question in a file ("-": standard input), with what the command line says over it. Raises ConfigError."""
    question = read_question(_read(file))
    if bucket_file:
        question = with_bucket_file(question, bucket_file)
    return replace(question, kv_blocks=kv_blocks) if kv_blocks else question


def _read(file: Path) -> str:
    if str(file) == "-":
        return read_bounded(sys.stdin.buffer, "standard input", MAX_DOCUMENT_BYTES)
    try:
        with file.open("rb") as stream:
            return read_bounded(stream, str(file), MAX_DOCUMENT_BYTES)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def read_bounded(stream: BinaryIO, name: str, limit: int) -> str:
    """The UTF-8 text of a stream of at most `limit` bytes. Raises ConfigError with `name`."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise ConfigError(f"{name} is larger than {limit} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def read_question(text: str) -> PlanQuestion:
    """The question in a JSON or YAML document. Raises ConfigError with one sentence."""
    document = _parse(text)
    try:
        if "engine" in document or "limits" in document:
            return _from_runtime_config(document)
        return _from_bare_limits(document)
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from error


def with_bucket_file(question: PlanQuestion, path: Path) -> PlanQuestion:
    """The same question with the buckets of a file. Raises ConfigError when it cannot be read."""
    try:
        with path.open("rb") as stream:
            text = read_bounded(stream, str(path), MAX_BUCKET_FILE_BYTES)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    policy = question.policy.model_copy(update={"strategy": Strategy.FILE, "file": text})
    return replace(question, policy=policy)


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else _yaml(text)
    except (ValueError, RecursionError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"the document is neither JSON nor YAML: {problem}") from error
    if not isinstance(document, dict):
        raise ConfigError("the document is not a mapping; give a RuntimeConfig or the limits of a model")
    if "kind" in document:
        raise ConfigError(f"kind {document['kind']!r} is not read; give a RuntimeConfig or the limits of a model")
    return document


def _yaml(text: str) -> object:
    # Imported here: most documents are JSON, and every call pays for what is imported.
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def _from_runtime_config(document: Mapping[str, Any]) -> PlanQuestion:
    from gaudi_runtime.contract.config import RuntimeConfig

    config = RuntimeConfig.model_validate(document)
    return PlanQuestion(config.bucketing, config.limits, kv_blocks=None)


def _from_bare_limits(document: Mapping[str, Any]) -> PlanQuestion:
    bare = _BareLimits.model_validate({k: v for k, v in document.items() if not _is_answer(k, v)})
    limits = Limits(
        max_model_len=bare.max_model_len,
        max_num_seqs=bare.max_num_seqs,
        max_num_prefill_seqs=bare.max_num_prefill_seqs,
        max_num_batched_tokens=bare.max_num_batched_tokens,
        block_size=bare.block_size,
        contiguous_paged_attention=bare.contiguous_pa,
        prefix_caching=bare.prefix_caching,
    )
    policy = policy_from_env(bare.strategy, bare.env).model_copy(update={"file": bare.file})
    return PlanQuestion(policy, limits, bare.num_blocks, bare.release)


def _is_answer(key: str, value: object) -> bool:
    """Whether this is the recorded answer of a case rather than a part of its question."""
    recorded = isinstance(value, dict) and "sha256" in value
    return key == "lookups" or (key in ("prompt", "decode") and recorded)


def _sentence(error: ValidationError) -> str:
    wrong = (f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}" for item in error.errors()[:3])
    return f"the document is wrong: {'; '.join(wrong)}"
