"""The ranges of a plan: defaults per strategy, and what users may override (docs/bucketing.md, Default ranges).

For each strategy one function takes the model's limits and the number of KV blocks on the device and returns a Range
per dimension. Users override by a BucketPolicy, which may be read from the bucket variables of public releases
(docs/bucketing.md, Variables); a warning names every setting that the chosen strategy does not read.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, RangeSettings, Strategy
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import quoted

LONG_MODEL_LEN = 8192
"""From this model length on, long-context rules apply."""


@dataclass(frozen=True)
class Range:
    """The settings of one dimension after defaults and overrides; a strategy reads only what it knows."""

    min: int
    step: int
    max: int
    limit: int = 0
    pad_max: int = 0
    pad_percent: int = 0

    def override(self, settings: RangeSettings) -> "Range":
        """Replace every value that the user gave."""
        return replace(self, **settings.model_dump(exclude_none=True))


@dataclass(frozen=True)
class Ranges:
    """The five dimensions of a plan."""

    prompt_batch: Range
    prompt_query: Range
    prompt_context: Range
    decode_batch: Range
    decode_blocks: Range


def ceil_log2(value: int) -> int:
    """Exponent of the smallest power of two that is >= value (value >= 1)."""
    return (value - 1).bit_length()


def exponential_ranges(limits: Limits, kv_blocks: int) -> Ranges:
    """Five ranges that depend on the limits only: users cannot override them."""
    block, seqs, prefills = limits.block_size, limits.max_num_seqs, limits.max_num_prefill_seqs
    tokens = limits.max_num_batched_tokens
    context = _exponential_context(limits)
    ceiling = kv_blocks if limits.contiguous_paged_attention else 3 * kv_blocks
    blocks = min(math.ceil(limits.max_model_len / block) * seqs, ceiling)
    return Ranges(
        prompt_batch=Range(1, 2, prefills, ceil_log2(prefills) + 1),
        prompt_query=Range(block, block, tokens, ceil_log2(tokens)),
        prompt_context=Range(0, 1, context, 2 if context == 1 else ceil_log2(context) + 1),
        decode_batch=Range(1, 2, seqs, ceil_log2(seqs) + 1),
        decode_blocks=Range(1, seqs, blocks, ceil_log2(blocks) + 1),
    )


def _exponential_context(limits: Limits) -> int:
    """Largest context in blocks: what is left of the model length after the shortest (or, long, the fullest) query."""
    long = limits.max_model_len >= LONG_MODEL_LEN
    query = limits.max_num_batched_tokens if long else limits.block_size
    return max(1, (limits.max_model_len - query) // limits.block_size)


def linear_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Ranges:
    """Evenly spaced values; `policy` overrides every setting."""
    block, length, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    query = Range(block, block, limits.max_num_batched_tokens).override(policy.prompt.query)
    blocks = max(length * seqs // block, block)
    if limits.contiguous_paged_attention:
        blocks = kv_blocks
    return Ranges(
        prompt_batch=Range(1, 1, limits.max_num_prefill_seqs).override(policy.prompt.batch_size),
        prompt_query=query,
        prompt_context=Range(0, 1, max(0, (length - query.min) // block)).override(policy.prompt.context),
        decode_batch=Range(1, 32, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit(Range(1, block, blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def padding_aware_ranges(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> Ranges:
    """Values whose absence would pad too much; `policy` overrides every setting."""
    block, length, seqs = limits.block_size, limits.max_model_len, limits.max_num_seqs
    tokens, prefills = limits.max_num_batched_tokens, limits.max_num_prefill_seqs
    query = _padded(block, block, tokens).override(policy.prompt.query)
    context = max(0, math.ceil((length - query.min) / block))
    blocks = max(math.ceil(length * seqs / block), block)
    if limits.contiguous_paged_attention:
        blocks = kv_blocks
    return Ranges(
        prompt_batch=_padded(1, 1, prefills).override(policy.prompt.batch_size),
        prompt_query=query,
        prompt_context=Range(0, 2, context, pad_max=math.ceil(tokens / block), pad_percent=25).override(
            policy.prompt.context
        ),
        decode_batch=_padded(1, 2, seqs).override(policy.decode.batch_size),
        decode_blocks=_fit(_padded(block, block, blocks).override(policy.decode.blocks), limits, kv_blocks),
    )


def _padded(minimum: int, step: int, maximum: int) -> Range:
    return Range(minimum, step, maximum, pad_max=math.ceil(maximum / 4), pad_percent=25)


def _fit(blocks: Range, limits: Limits, kv_blocks: int) -> Range:
    """Bring a decode-block range down to the blocks that exist, keeping its minimum below its maximum."""
    if limits.contiguous_paged_attention and blocks.max > kv_blocks:
        blocks = replace(blocks, max=kv_blocks)
    if blocks.min > blocks.max:
        blocks = replace(blocks, min=max(1, blocks.max - blocks.step))
    return blocks


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
    from gaudi_runtime.knobs.nearest import unknown_name
    from gaudi_runtime.knobs.table import knobs

    if name in knobs():
        return f"{name} is not a bucket variable: leave it out of env (docs/bucketing.md, Variables)"
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


_READ_BY = {
    Strategy.LINEAR: {"min", "step", "max"},
    Strategy.PADDING_AWARE: {"min", "step", "max", "padMax", "padPercent"},
}


def ignored_settings(policy: BucketPolicy, limits: Limits) -> Iterator[str]:
    """One sentence per setting without effect, named as users write it."""
    for dimension, settings in _dimensions(policy):
        without_context = dimension == "prompt.context" and not limits.prefix_caching
        for name in settings.model_dump(by_alias=True, exclude_none=True):
            if without_context:
                yield f"bucketing.{dimension}.{name} is ignored: prefix caching is off, so prompts have no context"
            elif name not in _read(policy.strategy, dimension, limits):
                yield f"bucketing.{dimension}.{name} is ignored by the {policy.strategy} strategy"
    if policy.file is not None and policy.strategy is not Strategy.FILE:
        yield f"bucketing.file is ignored by the {policy.strategy} strategy"
    if policy.optimal is not None and policy.strategy is not Strategy.OPTIMAL:
        yield f"bucketing.optimal is ignored by the {policy.strategy} strategy"


def _dimensions(policy: BucketPolicy) -> Iterator[tuple[str, RangeSettings]]:
    yield "prompt.batchSize", policy.prompt.batch_size
    yield "prompt.query", policy.prompt.query
    yield "prompt.context", policy.prompt.context
    yield "decode.batchSize", policy.decode.batch_size
    yield "decode.blocks", policy.decode.blocks


def _read(strategy: Strategy, dimension: str, limits: Limits) -> set[str]:
    """The settings that have an effect. A long model's context is capped by `max` under every ranged strategy."""
    caps = limits.max_model_len >= LONG_MODEL_LEN and dimension == "prompt.context"
    if strategy is Strategy.EXPONENTIAL:
        return {"max"} if caps else set()
    return _READ_BY.get(strategy, set())
