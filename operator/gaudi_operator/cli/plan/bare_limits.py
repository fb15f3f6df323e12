"""Bare limits: the flat form of a question, in the names of the public planners (docs/bucketing.md, Asking)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationInfo

from gaudi_runtime.buckets.env import policy_from_env
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy

PUBLIC_NAMES = {"exp": Strategy.EXPONENTIAL, "lin": Strategy.LINEAR, "pad": Strategy.PADDING_AWARE}
"""What the public servers call the strategies."""


def _our_name(strategy: object) -> object:
    return PUBLIC_NAMES.get(strategy, strategy) if isinstance(strategy, str) else strategy


def _variable(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a variable is a whole number or its text")
    return value


def _known_to_its_release(release: object, info: ValidationInfo) -> object:
    strategy = info.data.get("strategy")
    if release == "1.22" and strategy not in (Strategy.EXPONENTIAL, Strategy.UNIFIED):
        raise ValueError(f"1.22 has exponential and unified plans only, and strategy is {strategy}")
    return release


Whole = Annotated[int, Strict(), Field(ge=1, le=16_777_216)]
Flag = Annotated[bool, Strict()]
Variable = Annotated[str | int, BeforeValidator(_variable)]
Release = Annotated[Literal["current", "1.22"], BeforeValidator(_known_to_its_release)]


class BareLimits(BaseModel):
    """Limits and variables of a server. The recorded answers of a vector may stand beside them and are not read."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    strategy: Annotated[Strategy, BeforeValidator(_our_name)] = Strategy.EXPONENTIAL
    release: Release = "current"
    max_model_len: Whole
    max_num_seqs: Whole
    max_num_prefill_seqs: Whole = 1
    max_num_batched_tokens: Whole
    num_blocks: Whole | None = None
    block_size: Whole = 128
    contiguous_pa: Flag = True
    prefix_caching: Flag = True
    env: dict[str, Variable] | None = None
    file: str | None = None

    @property
    def limits(self) -> Limits:
        """The limits as the planner takes them."""
        return Limits(
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_prefill_seqs=self.max_num_prefill_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            block_size=self.block_size,
            contiguous_paged_attention=self.contiguous_pa,
            prefix_caching=self.prefix_caching,
        )

    @property
    def policy(self) -> BucketPolicy:
        """Strategy, variables and file. Raises ConfigError naming the variable at fault."""
        return policy_from_env(self.strategy, self.env or {}).model_copy(update={"file": self.file})


def read_bare_limits(document: Mapping[str, Any]) -> BareLimits:
    """Bare limits without the recorded answers. Raises pydantic's ValidationError."""
    return BareLimits.model_validate({key: value for key, value in document.items() if not _is_answer(key, value)})


def _is_answer(key: str, value: object) -> bool:
    recorded = isinstance(value, dict) and "sha256" in value
    return key == "lookups" or (key in ("prompt", "decode") and recorded)
