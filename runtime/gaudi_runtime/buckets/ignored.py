"""Warnings that name every setting which the chosen strategy does not read."""

from collections.abc import Iterator

from gaudi_runtime.buckets.defaults import LONG_MODEL_LEN
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, RangeSettings, Strategy

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
