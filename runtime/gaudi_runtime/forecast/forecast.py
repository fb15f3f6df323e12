"""A deployment, a model and a card -> Forecast (docs/memory.md). Pure: no device, no clock, no checkpoint."""

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.plan import make_plan
from gaudi_runtime.catalog.cards.card import Card
from gaudi_runtime.catalog.figure import Confidence, Figure
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible, Problem
from gaudi_runtime.forecast.inputs import ForecastInputs, spread_of
from gaudi_runtime.forecast.memory import Division, divide, told, total_memory
from gaudi_runtime.forecast.phases import no_graphs, phase_forecasts
from gaudi_runtime.forecast.rates import phase_rates
from gaudi_runtime.forecast.result import Forecast, MemoryForecast, Misfit, Phases
from gaudi_runtime.forecast.seconds import warmup_seconds
from gaudi_runtime.forecast.sentences import notes, room_problems


def forecast(inputs: ForecastInputs, shape: ModelShape | None, card: Card) -> Forecast:
    """What this deployment needs and gets. A `shape` of None gives what can be said without a model.

    Never raises for a deployment that does not fit: `problems` says why.
    """
    total = total_memory(inputs, card)
    division, problems = _divided(inputs, shape, total)
    memory = told(division, inputs, shape, total) if division and shape and total else None
    blocks = _blocks(inputs, memory)
    plan, impossible = _plan(inputs, int(blocks.value), problems)
    phases = _phases(inputs, plan, shape, card, division)
    return Forecast(
        card=card.name,
        model=(shape.name or shape.family) if shape else None,
        memory=memory,
        kv_blocks=blocks,
        plan=plan,
        prompt=phases.get(BucketPhase.PROMPT),
        decode=phases.get(BucketPhase.DECODE),
        warmup_seconds=warmup_seconds(inputs, phases),
        problems=(*problems, *room_problems(inputs, memory), *impossible),
        notes=notes(inputs, shape, card, blocks),
    )


def _divided(
    inputs: ForecastInputs, shape: ModelShape | None, total: Figure | None
) -> tuple[Division | None, tuple[Problem, ...]]:
    if shape is None or total is None:
        return None, ()
    try:
        return divide(inputs, shape, int(total.value)), ()
    except PlanImpossible as error:
        return None, (Problem(Misfit.PARALLELISM, str(error)),)


def _blocks(inputs: ForecastInputs, memory: MemoryForecast | None) -> Figure:
    if inputs.kv_blocks is not None:
        return Figure(inputs.kv_blocks, "given", Confidence.EXACT)
    if memory is not None:
        return memory.kv_blocks
    return Figure(inputs.useful_blocks, "enough for maxNumSeqs sequences of maxModelLen", Confidence.ASSUMED)


def _plan(
    inputs: ForecastInputs, blocks: int, problems: tuple[Problem, ...]
) -> tuple[BucketPlan | None, tuple[Problem, ...]]:
    if blocks < 1 or problems:
        return None, ()
    try:
        return make_plan(inputs.policy, inputs.limits, blocks), ()
    except PlanImpossible as error:
        return None, (Problem(Misfit.PLAN_IMPOSSIBLE, str(error)),)


def _phases(
    inputs: ForecastInputs, plan: BucketPlan | None, shape: ModelShape | None, card: Card, division: Division | None
) -> Phases:
    if plan is None:
        return {}
    if card.rates is None:
        return no_graphs(plan)
    spread = spread_of(inputs, shape) if shape else None
    rates = {phase: phase_rates(card.rates, phase, shape, spread) for phase in BucketPhase}
    return phase_forecasts(inputs, plan, rates, division)
