"""What only old releases and comparisons with them need: no server of today plans like this, or is configured so.

- Plans of Gaudi software 1.22, for servers that still run it (docs/internals/bucketing.md, Release 1.22; logs 001,
  003): its exponential ranges fill gaps that rounding leaves, and a prompt with context is planned only where context
  and query together fit the token budget.
- Plans of unified attention, where prompt and decode share one batch (docs/internals/bucketing.md, Unified; log 001).
- Bare limits: a server in the names and variables of the public planners (docs/internals/bucketing.md, Asking and
  Variables).
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError, ValidationInfo

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan, Rule
from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.planner import Sieve, plan_of
from gaudi_runtime.planning.ranges import Range, ceil_log2, geometric, next_multiple
from gaudi_runtime.units import quoted


def plan_1_22(limits: Limits, kv_blocks: int) -> BucketPlan:
    """The exponential plan of release 1.22. Raises PlanImpossible when a phase is empty."""
    prompt, decode = Sieve(BucketPhase.PROMPT), Sieve(BucketPhase.DECODE)
    _take_prompt(prompt, limits)
    _take_decode(decode, limits, kv_blocks)
    return plan_of(prompt, decode)


def _take_prompt(sieve: Sieve, limits: Limits) -> None:
    block, longest = limits.block_size, limits.max_model_len
    batches = _batches(limits.max_num_prefill_seqs, limits)
    queries = _fill(Range(block, block, longest, ceil_log2(longest) + 1), limits)
    for batch_size, query in product(batches, queries):
        asked = (longest - query) // block + 1 if limits.prefix_caching else 1
        tokens = limits.max_num_batched_tokens // batch_size
        fitting = min(asked, max(0, (tokens - query) // block + 1))
        for context in range(fitting):
            sieve.keep(Bucket(batch_size, query, context))
        if fitting < asked:
            sieve.drop(Rule.OVER_BUDGET_WITH_CONTEXT, asked - fitting)


def _take_decode(sieve: Sieve, limits: Limits, kv_blocks: int) -> None:
    block = limits.block_size
    blocks = _fill(Range(block, block, kv_blocks, ceil_log2(kv_blocks) + 1), limits)
    for batch_size, count in product(_batches(limits.max_num_seqs, limits), blocks):
        sieve.keep(Bucket(batch_size, 1, count))


def _batches(most: int, limits: Limits) -> list[int]:
    return _fill(Range(1, 1, most, ceil_log2(most) + 1), limits)


def _fill(r: Range, limits: Limits) -> list[int]:
    return exponential_fill(r.min, r.step, r.max, r.limit, ends_exact=limits.contiguous_paged_attention)


def exponential_fill(minimum: int, step: int, maximum: int, limit: int, *, ends_exact: bool) -> list[int]:
    """The form of release 1.22: a point whose rounded value is taken gets the nearest free multiple of the step."""
    if limit <= 1:
        return [maximum]
    points = geometric(minimum, maximum, limit)
    free = set(range(next_multiple(minimum, step), maximum + 1, step))
    values: set[int] = set()
    for position, point in enumerate(points):
        last = position == limit - 1
        value = maximum if last and ends_exact else next_multiple(point, step)
        # So none of the `limit` buckets is lost to rounding while free multiples are left.
        if value in values and free:
            value = min(free, key=lambda candidate: (abs(candidate - point), candidate))
        values.add(value)
        free.discard(value)
    return sorted(values)


class UnifiedBucket(NamedTuple):
    """A padded mixed batch: tokens, KV blocks used by several sequences, KV blocks used by one, causal 0 or 1."""

    query: int
    shared: int
    unique: int
    causal: int


def plan_unified(limits: Limits, kv_blocks: int) -> tuple[UnifiedBucket, ...]:
    """All unified buckets, sorted and distinct; `kv_blocks` are those that exist on the device."""
    seqs = limits.max_num_seqs
    queries = unified_alpha(limits.block_size, seqs, limits.max_num_batched_tokens)
    shared = unified_alpha(0, seqs, limits.max_model_len // limits.block_size * seqs)
    unique = unified_alpha(0, seqs, kv_blocks)
    candidates = (UnifiedBucket(*values) for values in product(queries, shared, unique, (0, 1)))
    return tuple(bucket for bucket in candidates if bucket.query > 0 and _possible(bucket, limits))


def _possible(bucket: UnifiedBucket, limits: Limits) -> bool:
    """Whether a batch of this shape can arise: no sequence may reference more than its model length."""
    query, shared, unique, causal = bucket
    tokens = shared * limits.block_size
    if causal:
        return tokens // min(limits.max_num_seqs, query) <= limits.max_model_len
    if query > limits.max_num_seqs or shared + unique == 0:
        return False
    return shared == 0 or (query > 1 and tokens // (query // 2) <= limits.max_model_len)


def unified_alpha(minimum: int, turning: int, maximum: int) -> list[int]:
    """Six points at a quarter, a half and the whole of two values, and 0 when the minimum is 0 (log 001)."""
    points = {point // part for point in (turning, maximum) for part in (4, 2, 1)}
    return sorted(points | ({0} if minimum == 0 else set()))


PUBLIC_NAMES = {"exp": Strategy.EXPONENTIAL, "lin": Strategy.LINEAR, "pad": Strategy.PADDING_AWARE}
"""What the public servers call the strategies."""


def _variable(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a variable is a whole number or its text")
    return value


def _strategy(name: object) -> object:
    """By its public name, by ours, and as a GaudiInference spells that."""
    words = {as_in_spec(strategy): strategy for strategy in Strategy}
    return (PUBLIC_NAMES | words).get(str(name), name)


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

    strategy: Annotated[Strategy, BeforeValidator(_strategy)] = Strategy.EXPONENTIAL
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
"""Phase, dimension and setting: where a variable goes."""


def policy_from_env(strategy: Strategy, variables: Mapping[str, str | int]) -> BucketPolicy:
    """A policy with the ranges that `variables` set, such as VLLM_DECODE_BLOCK_BUCKET_MAX.

    SEQ is the old name of QUERY and yields to it. Raises ConfigError naming the variable at fault.
    """
    settings: Settings = {"prompt": {}, "decode": {}}
    written: dict[Place, str] = {}
    # Old names first, so that the new one is applied last and wins.
    for name in sorted(variables, key=lambda name: "_SEQ_" not in name):
        phase, dimension, setting = place = _place(name)
        settings[phase].setdefault(dimension, {})[setting] = _whole(name, variables[name])
        written[place] = name
    return _validated(strategy, settings, written)


def _place(name: str) -> Place:
    match = _NAME.fullmatch(name)
    dimension = match and _DIMENSIONS.get((match[1], match[2]))
    if not match or not dimension:
        raise ConfigError(_why_no_bucket_variable(name))
    return match[1].lower(), dimension, match[3].lower()


def _why_no_bucket_variable(name: str) -> str:
    # Imported here: the table of all knobs is read only to answer a mistake.
    from gaudi_runtime.knobs.check import unknown_name
    from gaudi_runtime.knobs.table import knobs

    if name in knobs():
        return f"{name} is not a bucket variable: leave it out of env (manual: How buckets are made, Variables)"
    return unknown_name(name)


def _whole(name: str, value: str | int) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {quoted(repr(value))} is not a whole number") from error


def _validated(strategy: Strategy, settings: Settings, written: Mapping[Place, str]) -> BucketPolicy:
    try:
        return BucketPolicy.model_validate({"strategy": strategy, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        phase, dimension, setting = map(str, first["loc"])
        name = written[phase, dimension, setting]
        raise ConfigError(f"{name}: {first['msg']}, got {quoted(str(first['input']))}") from error
