"""Advice: the smallest change of one setting that makes a deployment fit (docs/internals/memory.md, Advice).

The search changes each setting in growing strides until the forecast fits, and then bisects the last stride. So the
answer fits, and one step less does not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gaudi_runtime.catalog.cards import Card
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import KvCacheDtype, QuantizationMethod
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Forecast
from gaudi_runtime.forecast.thresholds import Thresholds, fits, reachable
from gaudi_runtime.planning.planner import count_candidates
from gaudi_runtime.units import GIB

MOST_CHANGES = 3
# A stride is at most this part of the way, because a forecast need not improve with every step, and a stride should not
# skip a stretch that fits. A shorter stretch may be skipped, so a smaller change than the answer may exist.
STRIDES = 16
# The most buckets that all trials together may try: about a second, whatever the plan.
WORK = 200_000


Value = int | float | str

MEMORY = "accelerator.deviceMemory"
# In percent. The rest is for memory that no forecast includes.
MOST_SHARE = 95
MOST_MEMORY = 2048 * GIB
# A node has at most eight cards.
TENSOR_RANKS = (2, 4, 8)


@dataclass(frozen=True)
class Setting:
    """A setting that advice may change, with its values from the least change to the largest; `set` changes it."""

    verb: str
    field: str
    now: float
    values: Sequence[Value]
    set: Callable[[ForecastInputs, Value], ForecastInputs]

    def text(self, value: Value) -> str:
        """Return the change as a part of a sentence, with the field name of a GaudiInference."""
        if isinstance(value, float):  # a share, which is written in percent
            return f"{self.verb} {self.field} to {value * 100:g}"
        return f"{self.verb} {self.field} to {f'{int(value) // GIB}Gi' if self.field == MEMORY else value}"

    def distance(self, value: Value) -> float:
        """Return the size of a change: relative to the current value, the difference for shares, 1 for a word."""
        if isinstance(value, str):
            return 1.0
        return abs(value - self.now) / (1 if isinstance(value, float) else max(1, self.now))


def turnable_settings(inputs: ForecastInputs, shape: ModelShape) -> tuple[Setting, ...]:
    """Return all settings of this deployment that advice may change."""
    ranks = inputs.parallelism.tensor
    heads = {layer.attention.heads for layer in shape.layers}
    possible = [
        each for each in TENSOR_RANKS if each > ranks and each % ranks == 0 and not any(n % each for n in heads)
    ]
    return (
        *_limits(inputs),
        *_shares(inputs),
        *_memory(inputs),
        Setting(
            "raise",
            "parallelism.tensor",
            ranks,
            possible,
            lambda inputs, value: replace(inputs, parallelism=inputs.parallelism.model_copy(update={"tensor": value})),
        ),
    )


def _limits(inputs: ForecastInputs) -> tuple[Setting, ...]:
    limits = inputs.limits
    block, length, tokens = limits.block_size, limits.max_model_len, limits.max_num_batched_tokens
    return (
        Setting(
            "lower",
            "engine.maxNumSeqs",
            limits.max_num_seqs,
            range(limits.max_num_seqs - 1, max(1, limits.max_num_prefill_seqs) - 1, -1),
            lambda inputs, value: _limited(inputs, max_num_seqs=value),
        ),
        Setting("lower", "model.maxModelLen", length, range(_below(length, block), 0, -block), _set_length),
        Setting(
            "lower",
            "engine.maxNumBatchedTokens",
            tokens,
            range(_below(tokens, block), 0, -block),
            lambda inputs, value: _limited(inputs, max_num_batched_tokens=value),
        ),
    )


def _shares(inputs: ForecastInputs) -> tuple[Setting, ...]:
    def set_share(inputs: ForecastInputs, value: Value) -> ForecastInputs:
        return replace(inputs, warmup=inputs.warmup.model_copy(update={"graph_memory_share": value}))

    share, utilization = inputs.warmup.graph_memory_share, inputs.utilization
    # In both directions, because a larger share leaves more room for graphs, and a smaller one more for the KV cache.
    return (
        Setting("raise", "warmup.graphMemoryPercent", share, _percents_above(share), set_share),
        Setting("lower", "warmup.graphMemoryPercent", share, _percents_below(share), set_share),
        Setting(
            "raise",
            "engine.deviceMemoryUtilizationPercent",
            utilization,
            _percents_above(utilization),
            lambda inputs, value: replace(inputs, utilization=float(value)),
        ),
    )


def _memory(inputs: ForecastInputs) -> Iterator[Setting]:
    # The API server refuses fp8 with another method, because only inc has the scales.
    scaled = inputs.quantization is QuantizationMethod.INC and inputs.kv_cache_dtype is KvCacheDtype.AUTO
    values = [KvCacheDtype.FP8.value] if scaled else []
    yield Setting(
        "set",
        "model.kvCacheDtype",
        0,
        values,
        lambda inputs, value: replace(inputs, kv_cache_dtype=KvCacheDtype(str(value))),
    )
    memory = inputs.device_memory
    # If deviceMemory is not set, it is the card's own memory, which cannot be raised.
    if memory is not None:
        larger = range((memory // GIB + 1) * GIB, MOST_MEMORY + 1, GIB)
        yield Setting("raise", MEMORY, memory, larger, lambda inputs, value: replace(inputs, device_memory=int(value)))


def _below(number: int, step: int) -> int:
    """Return the largest multiple of `step` below `number`."""
    return (number - 1) // step * step


# A share such as 0.29 is 28.999999999999996 percent, which must count as 29.
_ROUNDING = 1e-9


def _percents_above(share: float) -> list[Value]:
    return [percent / 100 for percent in range(int(share * 100 + _ROUNDING) + 1, MOST_SHARE + 1)]


def _percents_below(share: float) -> list[Value]:
    return [percent / 100 for percent in range(-int(-share * 100 + _ROUNDING) - 1, -1, -1)]


def _limited(inputs: ForecastInputs, **limits: Value) -> ForecastInputs:
    return replace(inputs, limits=inputs.limits.model_copy(update=limits))


def _set_length(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    # If maxNumBatchedTokens is not set, it is the model length and changes with it.
    tokens = value if inputs.tokens_follow_length else inputs.limits.max_num_batched_tokens
    return _limited(inputs, max_model_len=value, max_num_batched_tokens=tokens)


Fits = Callable[[ForecastInputs], bool]


@dataclass(frozen=True)
class Change:
    """A change that makes the deployment fit: the advice in words, and the deployment after the change.

    `inputs` is None if the request is changed instead of the deployment.
    """

    text: str
    distance: float
    inputs: ForecastInputs | None = None


def advise(inputs: ForecastInputs, shape: ModelShape, card: Card, thresholds: Thresholds) -> tuple[Change, ...]:
    """Return at most three changes that make a deployment fit, the smallest first.

    The result is empty if the deployment already fits or no single change helps. If only graphs are missing, the last
    change is to serve anyway. If the model does not fit either, thresholds of 0 % return the changes that make room for
    the model.
    """
    now = forecast(inputs, shape, card)
    if fits(now, thresholds):
        return ()
    trials = _Trials(shape, card, thresholds)
    found = [
        change for setting in turnable_settings(inputs, shape) if (change := _smallest(inputs, setting, trials.fits))
    ]
    lower = _lower_percentages(now, thresholds)
    best = sorted([*found, *lower], key=lambda change: change.distance)[:MOST_CHANGES]
    return (*best, SERVE_ANYWAY) if lower else tuple(best)


class _Trials:
    """Forecasts of changed deployments, until the work limit is reached."""

    def __init__(self, shape: ModelShape, card: Card, thresholds: Thresholds) -> None:
        self._shape, self._card, self._thresholds = shape, card, thresholds
        self._work = WORK

    def fits(self, inputs: ForecastInputs) -> bool:
        """Return True if a deployment fits; False after the work limit, so that the search ends."""
        if self._work <= 0:
            return False
        answer = forecast(inputs, self._shape, self._card)
        # All candidates count, not only planned buckets, because a plan may try millions to find a few.
        looked_at = count_candidates(inputs.policy, inputs.limits, int(answer.kv_blocks.value))
        planned = sum(phase.planned for phase in (answer.prompt, answer.decode) if phase)
        self._work -= 100 + max(planned, looked_at)
        return fits(answer, self._thresholds)


def _smallest(inputs: ForecastInputs, setting: Setting, fit: Fits) -> Change | None:
    def tried(step: int) -> bool:
        return fit(setting.set(inputs, setting.values[step]))

    bounds = _strides(len(setting.values), tried)
    if bounds is None:
        return None
    value: Value = setting.values[_bisect(*bounds, tried)]
    return Change(setting.text(value), setting.distance(value), setting.set(inputs, value))


def _strides(count: int, fit: Callable[[int], bool]) -> tuple[int, int] | None:
    """Return a step that does not fit (-1 is no change) and a later one that does; None if none fits."""
    before, stride, longest = -1, 1, max(1, count // STRIDES)
    while before < count - 1:
        step = min(before + stride, count - 1)
        if fit(step):
            return before, step
        before, stride = step, min(stride * 2, longest)
    return None


def _bisect(misfit: int, fitting: int, fit: Callable[[int], bool]) -> int:
    """Return a step that fits while the previous one does not. `misfit` does not fit, `fitting` does."""
    while fitting - misfit > 1:
        middle = (misfit + fitting) // 2
        if fit(middle):
            fitting = middle
        else:
            misfit = middle
    return fitting


SERVE_ANYWAY = Change("set readiness.onShortfall to ServeAndWarn: a pod then serves with the graphs that fit", 1.0)


def _lower_percentages(now: Forecast, thresholds: Thresholds) -> list[Change]:
    """Return lower percentages as a change, if only graphs are missing."""
    if now.problems:
        return []
    asked = {"prompt": thresholds.prompt_percent, "decode": thresholds.decode_percent}
    short = [(phase.phase, percent) for phase, percent in reachable(now, thresholds) if percent < asked[phase.phase]]
    text = " and ".join(f"lower readiness.minCaptured{phase.title()}Percent to {percent}" for phase, percent in short)
    distance = max((1 - percent / asked[phase] for phase, percent in short), default=0)
    return [Change(text, distance)] if short else []
