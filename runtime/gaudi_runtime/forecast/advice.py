"""The smallest change that makes a deployment fit, one setting at a time (docs/memory.md, Advice).

Each setting is turned away from its value in growing strides until the forecast fits, then bisected: the answer
fits, and one step less does not. A forecast need not improve with every step, so a smaller change may exist beyond
a stretch that does not fit.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.plan import candidates
from gaudi_runtime.catalog.cards.card import Card
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.levers import Lever, Value, levers
from gaudi_runtime.forecast.result import Forecast
from gaudi_runtime.forecast.wanted import Wanted, fits, reachable

MOST_CHANGES = 3
STRIDES = 16
"""No stride is longer than this part of the way, so that a stretch that fits is not jumped over."""

LEAST_PERCENT = 50
"""A lower percentage is no advice: most requests would run without a graph."""

WORK = 200_000
"""Buckets that may be looked at in all trials together: about a second, whatever the plan."""

Fits = Callable[[ForecastInputs], bool]


@dataclass(frozen=True)
class Change:
    """One change that makes the deployment fit: what to do in words, and the deployment after it.

    `inputs` is None where the change is to what is asked for instead of to the deployment.
    """

    text: str
    distance: float
    inputs: ForecastInputs | None = None


def advise(inputs: ForecastInputs, shape: ModelShape, card: Card, wanted: Wanted) -> tuple[Change, ...]:
    """At most three changes, the smallest first; none when it fits already or no single one helps.

    Where there is no room for the model either, ask with percentages of 0 what gives it room.
    """
    now = forecast(inputs, shape, card)
    if fits(now, wanted):
        return ()
    trials = _Trials(shape, card, wanted)
    found = [change for lever in levers(inputs, shape) if (change := _smallest(inputs, lever, trials.fits))]
    best = sorted([*found, *_ask_for_less(now, wanted)], key=lambda change: change.distance)
    return tuple(best[:MOST_CHANGES])


def sentence(changes: tuple[Change, ...]) -> str:
    """The changes as one sentence without its full stop; empty when there are none."""
    return ", or ".join(change.text for change in changes)


class _Trials:
    """Forecasts of changed deployments, until the work is done."""

    def __init__(self, shape: ModelShape, card: Card, wanted: Wanted) -> None:
        self._shape, self._card, self._wanted = shape, card, wanted
        self._work = WORK

    def fits(self, inputs: ForecastInputs) -> bool:
        """Whether a deployment fits; False once the work is done, so that the search ends."""
        if self._work <= 0:
            return False
        answer = forecast(inputs, self._shape, self._card)
        # Not only those that are planned: a plan may look at millions for a few, or for none.
        looked_at = candidates(inputs.policy, inputs.limits, int(answer.kv_blocks.value))
        planned = sum(phase.planned for phase in (answer.prompt, answer.decode) if phase)
        self._work -= 100 + max(planned, looked_at)
        return fits(answer, self._wanted)


def _smallest(inputs: ForecastInputs, lever: Lever, fit: Fits) -> Change | None:
    def tried(step: int) -> bool:
        return fit(lever.set(inputs, lever.values[step]))

    bounds = _strides(len(lever.values), tried)
    if bounds is None:
        return None
    value: Value = lever.values[_bisect(*bounds, tried)]
    return Change(lever.text(value), lever.distance(value), lever.set(inputs, value))


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


def _ask_for_less(now: Forecast, wanted: Wanted) -> list[Change]:
    """Lower percentages, where graphs are all that is missing."""
    if now.problems:
        return []
    asked = {"prompt": wanted.prompt_percent, "decode": wanted.decode_percent}
    short = [(phase.phase, percent) for phase, percent in reachable(now, wanted) if percent < asked[phase.phase]]
    text = " and ".join(f"lower readiness.minCaptured{phase.title()}Percent to {percent}" for phase, percent in short)
    distance = max((1 - percent / asked[phase] for phase, percent in short), default=0)
    return [Change(text, distance)] if short and min(percent for _, percent in short) >= LEAST_PERCENT else []
