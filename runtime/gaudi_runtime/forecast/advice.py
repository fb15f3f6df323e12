"""Advice: the smallest change of one setting that makes a deployment fit (docs/internals/warmup.md, Advice).

The search changes each setting in increasing steps until the forecast fits, and then bisects the last step. So the
result fits, but the value just before the result does not fit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gaudi_runtime.catalog.cards import Card
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import KvCacheDtype, QuantizationMethod
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Forecast
from gaudi_runtime.forecast.thresholds import Thresholds, fits, reachable_thresholds
from gaudi_runtime.planning.planner import count_candidates
from gaudi_runtime.units import GIB

MOST_CHANGES = 3
# The search tries values in steps of at most 1/16 of the range. A larger step could skip all values that fit, because a
# forecast does not always improve from one value to the next. Even this step can skip a fitting value, so a smaller
# change than the answer may exist.
STRIDES = 16
# The maximum number of buckets in all trials together. Trials of this size take about one second for any plan.
WORK = 200_000


Value = int | float | str

MEMORY = "accelerator.deviceMemory"
# In percent. The rest is reserved for memory that no forecast includes.
MOST_SHARE = 95
MOST_MEMORY = 2048 * GIB
# The search stops at 8 ranks, because a node has at most 8 cards.
TENSOR_RANKS = (2, 4, 8)


@dataclass(frozen=True)
class Setting:
    """A setting that advice may change, with its new values from the smallest change to the largest.

    `set` applies a value to the inputs of a forecast.
    """

    verb: str
    field_path: str
    current: float
    new_values: Sequence[Value]
    set: Callable[[ForecastInputs, Value], ForecastInputs]

    def describe_change(self, value: Value) -> str:
        """Return the text of the change for a sentence, with the field name of a GaudiInference."""
        if isinstance(value, float):  # a share, which is written in percent
            return f"{self.verb} {self.field_path} to {value * 100:g}"
        return f"{self.verb} {self.field_path} to {f'{int(value) // GIB}Gi' if self.field_path == MEMORY else value}"

    def distance(self, value: Value) -> float:
        """Return the size of a change: the relative change of a number, the difference of shares, or 1 for a word."""
        if isinstance(value, str):
            return 1.0
        return abs(value - self.current) / (1 if isinstance(value, float) else max(1, self.current))


def adjustable_settings(inputs: ForecastInputs, shape: ModelShape) -> tuple[Setting, ...]:
    """Return all settings of this deployment that advice may change."""
    ranks = inputs.parallelism.tensor
    heads = {layer.heads for layer in shape.layers}
    rank_counts = [
        count for count in TENSOR_RANKS if count > ranks and count % ranks == 0 and not any(n % count for n in heads)
    ]
    return (
        *_limit_settings(inputs),
        *_share_settings(inputs),
        *_memory_settings(inputs),
        Setting(
            "raise",
            "parallelism.tensor",
            ranks,
            rank_counts,
            lambda inputs, value: replace(inputs, parallelism=inputs.parallelism.model_copy(update={"tensor": value})),
        ),
    )


def _limit_settings(inputs: ForecastInputs) -> tuple[Setting, ...]:
    limits = inputs.limits
    block, length, tokens = limits.block_size, limits.max_model_len, limits.max_num_batched_tokens
    return (
        Setting(
            "lower",
            "engine.maxNumSeqs",
            limits.max_num_seqs,
            range(limits.max_num_seqs - 1, max(1, limits.max_num_prefill_seqs) - 1, -1),
            lambda inputs, value: _replace_limits(inputs, max_num_seqs=value),
        ),
        Setting("lower", "model.maxModelLen", length, range(_multiple_below(length, block), 0, -block), _set_length),
        Setting(
            "lower",
            "engine.maxNumBatchedTokens",
            tokens,
            range(_multiple_below(tokens, block), 0, -block),
            lambda inputs, value: _replace_limits(inputs, max_num_batched_tokens=value),
        ),
    )


def _share_settings(inputs: ForecastInputs) -> tuple[Setting, ...]:
    def set_share(inputs: ForecastInputs, value: Value) -> ForecastInputs:
        return replace(inputs, warmup=inputs.warmup.model_copy(update={"graph_memory_share": value}))

    share, utilization = inputs.warmup.graph_memory_share, inputs.utilization
    # Both directions are tried: a larger share leaves more memory for graphs, and a smaller share leaves more for the
    # KV cache.
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


def _memory_settings(inputs: ForecastInputs) -> Iterator[Setting]:
    # The API server rejects an FP8 KV cache without the method inc, because only inc has the scales.
    can_use_fp8 = inputs.quantization is QuantizationMethod.INC and inputs.kv_cache_dtype is KvCacheDtype.AUTO
    values = [KvCacheDtype.FP8_INC.value] if can_use_fp8 else []
    yield Setting(
        "set",
        "model.kvCacheDtype",
        0,
        values,
        lambda inputs, value: replace(inputs, kv_cache_dtype=KvCacheDtype(str(value))),
    )
    memory = inputs.device_memory
    # If deviceMemory is not set, the forecast uses the memory of the card, which cannot be raised.
    if memory is not None:
        larger = range((memory // GIB + 1) * GIB, MOST_MEMORY + 1, GIB)
        yield Setting("raise", MEMORY, memory, larger, lambda inputs, value: replace(inputs, device_memory=int(value)))


def _multiple_below(number: int, step: int) -> int:
    """Return the largest multiple of `step` below `number`."""
    return (number - 1) // step * step


# The rounding corrects float errors: 0.29 * 100 is 28.999999999999996, but it must count as 29.
_ROUNDING = 1e-9


def _percents_above(share: float) -> list[Value]:
    return [percent / 100 for percent in range(int(share * 100 + _ROUNDING) + 1, MOST_SHARE + 1)]


def _percents_below(share: float) -> list[Value]:
    return [percent / 100 for percent in range(-int(-share * 100 + _ROUNDING) - 1, -1, -1)]


def _replace_limits(inputs: ForecastInputs, **limits: Value) -> ForecastInputs:
    return replace(inputs, limits=inputs.limits.model_copy(update=limits))


def _set_length(inputs: ForecastInputs, value: Value) -> ForecastInputs:
    # If maxNumBatchedTokens is not set, it equals the model length, so both change together.
    tokens = value if inputs.tokens_follow_length else inputs.limits.max_num_batched_tokens
    return _replace_limits(inputs, max_model_len=value, max_num_batched_tokens=tokens)


Fits = Callable[[ForecastInputs], bool]


@dataclass(frozen=True)
class Change:
    """A change that makes the deployment fit: the text of the advice, and the inputs after the change.

    `inputs` is None if the advice changes the request instead of the deployment.
    """

    text: str
    distance: float
    inputs: ForecastInputs | None = None


def advise(inputs: ForecastInputs, shape: ModelShape, card: Card, thresholds: Thresholds) -> tuple[Change, ...]:
    """Return at most three changes that make a deployment fit, the smallest first.

    The result is empty if the deployment already fits or if no single change is sufficient. If only graphs are missing,
    the last change lowers the thresholds, so that the server serves with fewer graphs. To find changes for a model that
    does not fit either, pass thresholds of 0 %.
    """
    current_forecast = forecast(inputs, shape, card)
    if fits(current_forecast, thresholds):
        return ()
    trials = _Trials(shape, card, thresholds)
    changes = [
        change
        for setting in adjustable_settings(inputs, shape)
        if (change := _smallest_change(inputs, setting, trials.fits))
    ]
    threshold_changes = _lower_percentages(current_forecast, thresholds)
    best = sorted([*changes, *threshold_changes], key=lambda change: change.distance)[:MOST_CHANGES]
    return (*best, SERVE_ANYWAY) if threshold_changes else tuple(best)


class _Trials:
    """The trial forecasts of changed deployments, with a limit of their total work."""

    def __init__(self, shape: ModelShape, card: Card, thresholds: Thresholds) -> None:
        self._shape, self._card, self._thresholds = shape, card, thresholds
        self._remaining_work = WORK

    def fits(self, inputs: ForecastInputs) -> bool:
        """Return True if a deployment fits. Return False after the work limit is reached, so that the search ends."""
        if self._remaining_work <= 0:
            return False
        trial_forecast = forecast(inputs, self._shape, self._card)
        # All candidates count, because a plan may try millions of candidates to find a few buckets.
        candidate_count = count_candidates(inputs.policy, inputs.limits, int(trial_forecast.kv_blocks.value))
        planned = sum(phase.planned for phase in (trial_forecast.prompt, trial_forecast.decode) if phase)
        self._remaining_work -= 100 + max(planned, candidate_count)
        return fits(trial_forecast, self._thresholds)


def _smallest_change(inputs: ForecastInputs, setting: Setting, fit: Fits) -> Change | None:
    def step_fits(step: int) -> bool:
        return fit(setting.set(inputs, setting.new_values[step]))

    bounds = _find_bounds(len(setting.new_values), step_fits)
    if bounds is None:
        return None
    value: Value = setting.new_values[_bisect(*bounds, step_fits)]
    return Change(setting.describe_change(value), setting.distance(value), setting.set(inputs, value))


def _find_bounds(step_count: int, fit: Callable[[int], bool]) -> tuple[int, int] | None:
    """Return the last step that does not fit (-1 for no change) and the first tried step that fits, or None."""
    misfit, stride, max_stride = -1, 1, max(1, step_count // STRIDES)
    while misfit < step_count - 1:
        step = min(misfit + stride, step_count - 1)
        if fit(step):
            return misfit, step
        misfit, stride = step, min(stride * 2, max_stride)
    return None


def _bisect(misfit: int, fitting: int, fit: Callable[[int], bool]) -> int:
    """Return a step that fits and whose previous step does not fit, between `misfit` and `fitting`."""
    while fitting - misfit > 1:
        middle = (misfit + fitting) // 2
        if fit(middle):
            fitting = middle
        else:
            misfit = middle
    return fitting


SERVE_ANYWAY = Change("set readiness.onShortfall to ServeAndWarn: a pod then serves with the graphs that fit", 1.0)


def _lower_percentages(current_forecast: Forecast, thresholds: Thresholds) -> list[Change]:
    """Return lower threshold percentages as a change. The result is empty unless only graphs are missing."""
    if current_forecast.problems:
        return []
    current_percents = {"prompt": thresholds.prompt_percent, "decode": thresholds.decode_percent}
    lower_percents = [
        (phase.phase, percent)
        for phase, percent in reachable_thresholds(current_forecast, thresholds)
        if percent < current_percents[phase.phase]
    ]
    text = " and ".join(
        f"lower readiness.minCaptured{phase.title()}Percent to {percent}" for phase, percent in lower_percents
    )
    distance = max((1 - percent / current_percents[phase] for phase, percent in lower_percents), default=0)
    return [Change(text, distance)] if lower_percents else []
