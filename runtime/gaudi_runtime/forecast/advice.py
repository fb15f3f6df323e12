"""The smallest change that makes a deployment fit, one setting at a time (docs/internals/memory.md, Advice).

First the settings that may be turned, then the search. Each is turned away from its value in growing strides until the
forecast fits, then bisected: the answer fits, and one step less does not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gaudi_runtime.catalog.cards import Card
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import KvCacheDtype
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.result import Forecast, Thresholds, fits, reachable
from gaudi_runtime.planning.planner import count_candidates
from gaudi_runtime.units import GIB

MOST_CHANGES = 3
# No stride is longer than this part of the way: a forecast need not improve with every step, and a stretch that fits
# should not be jumped over. One that is shorter still may be, so a smaller change than the answer may exist.
STRIDES = 16
# Buckets that may be looked at in all trials together: about a second, whatever the plan.
WORK = 200_000


Value = int | float | str

MEMORY = "accelerator.deviceMemory"
# In percent: what is left is for what no forecast knows of.
MOST_SHARE = 95
MOST_MEMORY = 2048 * GIB
# A node has eight cards.
TENSOR_RANKS = (2, 4, 8)


@dataclass(frozen=True)
class Setting:
    """A setting that advice may turn, and its values from the least change to the largest; `set` turns it."""

    verb: str
    field: str
    now: float
    values: Sequence[Value]
    set: Callable[[ForecastInputs, Value], ForecastInputs]

    def text(self, value: Value) -> str:
        """What to do, as a part of a sentence, with the name that the field has in a GaudiInference."""
        if isinstance(value, float):  # a share, which is said in percent
            return f"{self.verb} {self.field} to {value * 100:g}"
        return f"{self.verb} {self.field} to {f'{int(value) // GIB}Gi' if self.field == MEMORY else value}"

    def distance(self, value: Value) -> float:
        """How large the change is: relative to the value of now, for shares the difference, 1 for a word."""
        if isinstance(value, str):
            return 1.0
        return abs(value - self.now) / (1 if isinstance(value, float) else max(1, self.now))


def turnable_settings(inputs: ForecastInputs, shape: ModelShape) -> tuple[Setting, ...]:
    """All settings that can be turned in this deployment."""
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
    # Both ways: a larger share leaves more room for graphs, and a smaller one for the KV cache, so for a model at all.
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
    values = [KvCacheDtype.FP8.value] if inputs.kv_cache_dtype is KvCacheDtype.AUTO else []
    yield Setting(
        "set",
        "model.kvCacheDtype",
        0,
        values,
        lambda inputs, value: replace(inputs, kv_cache_dtype=KvCacheDtype(str(value))),
    )
    memory = inputs.device_memory
    # Where it is not given it is the card's own, which nobody can raise.
    if memory is not None:
        larger = range((memory // GIB + 1) * GIB, MOST_MEMORY + 1, GIB)
        yield Setting("raise", MEMORY, memory, larger, lambda inputs, value: replace(inputs, device_memory=int(value)))


def _below(number: int, step: int) -> int:
    """The largest multiple of `step` below `number`."""
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
    # A maxNumBatchedTokens that was left out is the model length, so it goes with it.
    tokens = value if inputs.tokens_follow_length else inputs.limits.max_num_batched_tokens
    return _limited(inputs, max_model_len=value, max_num_batched_tokens=tokens)


Fits = Callable[[ForecastInputs], bool]


@dataclass(frozen=True)
class Change:
    """One change that makes the deployment fit: what to do in words, and the deployment after it.

    `inputs` is None where the change is to what is asked for instead of to the deployment.
    """

    text: str
    distance: float
    inputs: ForecastInputs | None = None


def advise(inputs: ForecastInputs, shape: ModelShape, card: Card, thresholds: Thresholds) -> tuple[Change, ...]:
    """At most three changes, the smallest first; none when it fits already or no single one helps.

    Where only graphs are missing, the last one is to serve all the same.

    Where there is no room for the model either, ask with percentages of 0 what gives it room.
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
    """Forecasts of changed deployments, until the work is done."""

    def __init__(self, shape: ModelShape, card: Card, thresholds: Thresholds) -> None:
        self._shape, self._card, self._thresholds = shape, card, thresholds
        self._work = WORK

    def fits(self, inputs: ForecastInputs) -> bool:
        """Whether a deployment fits; False once the work is done, so that the search ends."""
        if self._work <= 0:
            return False
        answer = forecast(inputs, self._shape, self._card)
        # Not only those that are planned: a plan may look at millions for a few, or for none.
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
    """A step that does not fit (-1 is no change) and a later one that does; None when none was met."""
    before, stride, longest = -1, 1, max(1, count // STRIDES)
    while before < count - 1:
        step = min(before + stride, count - 1)
        if fit(step):
            return before, step
        before, stride = step, min(stride * 2, longest)
    return None


def _bisect(misfit: int, fitting: int, fit: Callable[[int], bool]) -> int:
    """A step that fits while the one before does not. `misfit` does not fit, `fitting` does."""
    while fitting - misfit > 1:
        middle = (misfit + fitting) // 2
        if fit(middle):
            fitting = middle
        else:
            misfit = middle
    return fitting


SERVE_ANYWAY = Change("set readiness.onShortfall to ServeAndWarn: a pod then serves with the graphs that fit", 1.0)


def _lower_percentages(now: Forecast, thresholds: Thresholds) -> list[Change]:
    """Lower percentages, where graphs are all that is missing."""
    if now.problems:
        return []
    asked = {"prompt": thresholds.prompt_percent, "decode": thresholds.decode_percent}
    short = [(phase.phase, percent) for phase, percent in reachable(now, thresholds) if percent < asked[phase.phase]]
    text = " and ".join(f"lower readiness.minCaptured{phase.title()}Percent to {percent}" for phase, percent in short)
    distance = max((1 - percent / asked[phase] for phase, percent in short), default=0)
    return [Change(text, distance)] if short else []
