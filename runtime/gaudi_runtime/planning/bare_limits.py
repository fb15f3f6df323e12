"""Bare limits: a server described by the names and variables of the public planners.

See docs/internals/bucketing.md, Asking and Variables.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError, ValidationInfo

from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.text import safe_excerpt
from gaudi_runtime.errors import ConfigError

PUBLIC_NAMES = {"exp": Strategy.EXPONENTIAL, "lin": Strategy.LINEAR, "pad": Strategy.PADDING_AWARE}
"""The names of the strategies in the public servers."""


def _check_variable(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a variable must be a whole number, or a string with a whole number")
    return value


def _parse_strategy(name: object) -> object:
    """Return a strategy from its public name, from our name, or from its spelling in a GaudiInference."""
    spellings = {spec_spelling(strategy): strategy for strategy in Strategy}
    return (PUBLIC_NAMES | spellings).get(str(name), name)


def _check_release_strategy(release: object, info: ValidationInfo) -> object:
    strategy = info.data.get("strategy")
    if release == "1.22" and strategy not in (Strategy.EXPONENTIAL, Strategy.UNIFIED):
        raise ValueError(
            f"release 1.22 supports only the strategies exponential and unified, but strategy is {strategy}"
        )
    return release


Whole = Annotated[int, Strict(), Field(ge=1, le=16_777_216)]
Flag = Annotated[bool, Strict()]
Variable = Annotated[str | int, BeforeValidator(_check_variable)]
Release = Annotated[Literal["current", "1.22"], BeforeValidator(_check_release_strategy)]


class BareLimits(BaseModel):
    """The limits and variables of a server. Recorded answers in a test vector are ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    strategy: Annotated[Strategy, BeforeValidator(_parse_strategy)] = Strategy.EXPONENTIAL
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
        """Return the limits in the planner's form."""
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
        """Return strategy, variables and file as a bucket policy. Raises ConfigError that names the wrong variable."""
        return policy_from_env(self.strategy, self.env or {}).model_copy(update={"file": self.file})


def read_bare_limits(document: Mapping[str, Any]) -> BareLimits:
    """Read bare limits from a document, ignoring recorded answers. Raises pydantic's ValidationError."""
    return BareLimits.model_validate(
        {key: value for key, value in document.items() if not _is_recorded_answer(key, value)}
    )


def _is_recorded_answer(key: str, value: object) -> bool:
    has_digest = isinstance(value, dict) and "sha256" in value
    return key == "lookups" or (key in ("prompt", "decode") and has_digest)


_NAME = re.compile(r"VLLM_(PROMPT|DECODE)_(BS|QUERY|SEQ|CTX|BLOCK)_BUCKET_(MIN|STEP|MAX|LIMIT|PAD_MAX|PAD_PERCENT)")
_DIMENSIONS = {
    ("PROMPT", "BS"): "batch_size",
    ("PROMPT", "SEQ"): "query",
    ("PROMPT", "QUERY"): "query",
    ("PROMPT", "CTX"): "context",
    ("DECODE", "BS"): "batch_size",
    ("DECODE", "BLOCK"): "blocks",
}
Settings = dict[str, dict[str, dict[str, int]]]
Place = tuple[str, str, str]
"""The phase, dimension and setting that a variable sets."""


def policy_from_env(strategy: Strategy, variables: Mapping[str, str | int]) -> BucketPolicy:
    """Return the bucket policy with the ranges that variables such as VLLM_DECODE_BLOCK_BUCKET_MAX set.

    SEQ is the old name of QUERY. If both names are set, QUERY is used. Raises ConfigError that names the wrong
    variable.
    """
    settings: Settings = {"prompt": {}, "decode": {}}
    variable_names: dict[Place, str] = {}
    # Old names are sorted first, so that a new name overrides an old name.
    for name in sorted(variables, key=lambda name: "_SEQ_" not in name):
        phase, dimension, setting = place = _parse_variable_name(name)
        settings[phase].setdefault(dimension, {})[setting] = _parse_integer(name, variables[name])
        variable_names[place] = name
    return _validate_policy(strategy, settings, variable_names)


def _parse_variable_name(name: str) -> Place:
    match = _NAME.fullmatch(name)
    dimension = match and _DIMENSIONS.get((match[1], match[2]))
    if not match or not dimension:
        raise ConfigError(_why_not_bucket_variable(name))
    return match[1].lower(), dimension, match[3].lower()


def _why_not_bucket_variable(name: str) -> str:
    # The import is here, because only this error needs the table of all knobs.
    from gaudi_runtime.knobs.check import unknown_name_error
    from gaudi_runtime.knobs.table import knobs

    if name in knobs():
        return f"{name} is not a bucket variable. Remove {name} from env (manual: How buckets are made, Variables)"
    return unknown_name_error(name)


def _parse_integer(name: str, value: str | int) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {safe_excerpt(repr(value))} is not a whole number") from error


def _validate_policy(strategy: Strategy, settings: Settings, variable_names: Mapping[Place, str]) -> BucketPolicy:
    try:
        return BucketPolicy.model_validate({"strategy": strategy, **settings})
    except ValidationError as error:
        detail = error.errors()[0]
        phase, dimension, setting = map(str, detail["loc"])
        name = variable_names[phase, dimension, setting]
        raise ConfigError(f"{name}: {detail['msg']}, got {safe_excerpt(str(detail['input']))}") from error
