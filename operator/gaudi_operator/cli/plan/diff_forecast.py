"""Memory and minutes of two questions side by side: estimates, each with its source (docs/memory.md)."""

from dataclasses import dataclass

from gaudi_operator.cli.plan.forecasting import foresee
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.figure import Figure


@dataclass(frozen=True)
class Cost:
    """One figure before and after, in `unit` (bytes, blocks, seconds); None where nothing is known."""

    name: str
    unit: str
    old: Figure | None
    new: Figure | None


Costs = tuple[Cost, ...]


def forecasts(old: PlanQuestion, new: PlanQuestion, card: str | None, model: str | None) -> Costs:
    """Every figure that one of the two forecasts knows, in the order of the forecast. Raises ConfigError.

    Nothing is forecast for release 1.22: the figures of its side are unknown.
    """
    before, after = _figures(old, card, model), _figures(new, card, model)
    names = [*before, *(key for key in after if key not in before)]
    return tuple(Cost(*key, before.get(key), after.get(key)) for key in names)


def _figures(question: PlanQuestion, card: str | None, model: str | None) -> dict[tuple[str, str], Figure]:
    if question.release != "current":
        return {}
    return {(name, unit): figure for name, unit, figure in foresee(question, card, model).figures()}
