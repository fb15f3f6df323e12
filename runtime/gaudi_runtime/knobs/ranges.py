"""The range settings of a bucket policy that a strategy ignores (docs/internals/planning.md, Ranges)."""

from collections.abc import Iterator

from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, RangeSettings, Strategy
from gaudi_runtime.knobs.setting_fields import PAD_LIMITS

# The public planner applies its rules for long contexts to models of at least this length.
LONG_MODEL_LEN = 8192

_PAD_LIMITS = {place: name for name, place in PAD_LIMITS.items()}
_READ_BY = {
    Strategy.LINEAR: {"min", "step", "max"},
    Strategy.PADDING_AWARE: {"min", "step", "max", "padMax"},
}


def ignored_settings(policy: BucketPolicy, limits: Limits) -> Iterator[str]:
    """Yield a sentence for each range setting that a strategy ignores, with the name that users write."""
    strategy = spec_spelling(policy.strategy)
    for dimension, settings in _range_settings(policy):
        without_context = dimension == "prompt.context" and not limits.has_context
        for name in settings.model_dump(by_alias=True, exclude_none=True, exclude={"pad_percent"}):
            place = f"bucketing.{dimension}"
            setting = f"engine.settings {_PAD_LIMITS[place]}" if name == "padMax" else f"{place}.{name}"
            if limits.steps_by_tokens and dimension in ("prompt.batchSize", "prompt.context"):
                yield (
                    f"{setting} is ignored: on a CPU, the compiled steps of vLLM differ only in their number of tokens"
                )
            elif without_context:
                yield (f"{setting} is ignored: without prefix caching or split prompts, prompts have no context")
            elif name not in _used_settings(policy.strategy, dimension, limits):
                yield f"{setting} is ignored by the {strategy} strategy"
    pads = any(settings.pad_percent is not None for _, settings in _range_settings(policy))
    if pads and policy.strategy is not Strategy.PADDING_AWARE:
        yield f"bucketing.paddingAware is ignored by the {strategy} strategy"
    if policy.file is not None and policy.strategy is not Strategy.FILE:
        yield f"bucketing.file is ignored by the {strategy} strategy"
    if policy.optimal is not None and policy.strategy is not Strategy.OPTIMAL:
        yield f"bucketing.optimal is ignored by the {strategy} strategy"


def _range_settings(policy: BucketPolicy) -> Iterator[tuple[str, RangeSettings]]:
    yield "prompt.batchSize", policy.prompt.batch_size
    yield "prompt.query", policy.prompt.query
    yield "prompt.context", policy.prompt.context
    yield "decode.batchSize", policy.decode.batch_size
    yield "decode.blocks", policy.decode.blocks


def _used_settings(strategy: Strategy, dimension: str, limits: Limits) -> set[str]:
    """Return the settings that have an effect in a strategy."""
    # Every ranged strategy limits the context by `max` if the model is long or the plan is gapless.
    uses_max = dimension == "prompt.context" and (limits.max_model_len >= LONG_MODEL_LEN or bool(limits.gapless))
    if strategy is Strategy.EXPONENTIAL:
        return {"max"} if uses_max else set()
    return _READ_BY.get(strategy, set())
