"""Which heat maps answer a question, and where their figures come from."""

from enum import StrEnum
from typing import TYPE_CHECKING

from gaudi_operator.cli.heat.heat_map import HeatMap
from gaudi_operator.cli.heat.maps import bytes_map, padding_map
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from gaudi_runtime.forecast.result import Forecast


class Heat(StrEnum):
    """What the colours of a heat map mean."""

    PADDING = "padding"
    BYTES = "bytes"


def heat_maps(
    question: PlanQuestion, plan: BucketPlan, heat: Heat, card: str | None = None, model: str | None = None
) -> list[HeatMap]:
    """One map per phase. Raises ConfigError when the figures that a map needs are unknown."""
    if heat is Heat.PADDING:
        return [padding_map(plan, phase, question.limits, question.blocks) for phase in BucketPhase]
    from gaudi_operator.cli.plan.forecasting import foresee

    found = foresee(question, card, model).forecast
    return [_bytes_map(question, plan, phase, found) for phase in BucketPhase]


def _bytes_map(question: PlanQuestion, plan: BucketPlan, phase: BucketPhase, found: "Forecast") -> HeatMap:
    """The forecast's bytes of all graphs of a phase, shared out by what each bucket weighs."""
    from gaudi_runtime.warmup.order import weight

    foreseen = found.prompt if phase is BucketPhase.PROMPT else found.decode
    if found.plan is None or foreseen is None or foreseen.all_graph_bytes is None:
        raise ConfigError(f"nothing is known about the graphs of card {found.card}; choose another with --card")
    size = question.limits.block_size
    total = foreseen.all_graph_bytes
    rate = total.value / sum(weight(phase, bucket, size) for bucket in found.plan.of(phase))
    per = "token" if phase is BucketPhase.PROMPT else "sequence"
    source = f"{rate / 2**20:.2f} MiB a {per} for {found.model or 'a model'} on {found.card}, {total.confidence}: "
    return bytes_map(plan, phase, lambda bucket: rate * weight(phase, bucket, size), source + total.source)
