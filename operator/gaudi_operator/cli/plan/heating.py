"""Which heat maps answer a question, and where their figures come from."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gaudi_operator.cli.heat.heat_map import HeatMap
from gaudi_operator.cli.heat.maps import bytes_map, hits_map, padding_map
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from gaudi_runtime.forecast.result import Forecast
    from gaudi_runtime.traffic.histogram import Weights


class Heat(StrEnum):
    """What the colours of a heat map mean."""

    PADDING = "padding"
    BYTES = "bytes"
    HITS = "hits"


@dataclass(frozen=True)
class Subject:
    """What a heat map is about beside the plan: a card and a model (bytes), a trace of requests (hits)."""

    card: str | None = None
    model: str | None = None
    trace: Path | None = None


PLAN_ALONE = Subject()


def heat_maps(question: PlanQuestion, plan: BucketPlan, heat: Heat, subject: Subject = PLAN_ALONE) -> list[HeatMap]:
    """One map per phase. Raises ConfigError when the figures that a map needs are unknown."""
    match heat:
        case Heat.BYTES:
            return _bytes_maps(question, plan, subject)
        case Heat.HITS:
            return _hits_maps(question, plan, subject.trace)
    return [padding_map(plan, phase, question.limits, question.blocks) for phase in BucketPhase]


def _hits_maps(question: PlanQuestion, plan: BucketPlan, trace: Path | None) -> list[HeatMap]:
    """Where the batches of a trace go; what finds no bucket is told in the caption."""
    if trace is None:
        raise ConfigError("a heat map of hits needs traffic; give the requests with --trace CSV")
    from gaudi_operator.cli.plan.trace_file import Server, TraceFile
    from gaudi_runtime.traffic.batching import DEFAULT_PACE
    from gaudi_runtime.traffic.columns import ColumnNames

    traffic = TraceFile(trace, ColumnNames()).traffic(Server(question.limits, question.blocks, DEFAULT_PACE))
    return [_hits_map(plan, phase, traffic.of(phase), trace) for phase in BucketPhase]


def _hits_map(plan: BucketPlan, phase: BucketPhase, shapes: "Weights", trace: Path) -> HeatMap:
    hits: Counter[Bucket | None] = Counter()
    for shape, count in shapes.items():
        hits[plan.find(phase, *shape)] += round(count)
    missed = hits.pop(None, 0)
    how = "prompts of" if phase is BucketPhase.PROMPT else "decode steps, simulated from the arrivals of"
    source = f"{sum(hits.values()) + missed} {how} {trace}, {missed} find no bucket"
    return hits_map(plan, phase, {bucket: count for bucket, count in hits.items() if bucket}, source)


def _bytes_maps(question: PlanQuestion, plan: BucketPlan, subject: Subject) -> list[HeatMap]:
    from gaudi_operator.cli.plan.forecasting import foresee

    found = foresee(question, subject.card, subject.model).forecast
    return [_bytes_map(question, plan, phase, found) for phase in BucketPhase]


def _bytes_map(question: PlanQuestion, plan: BucketPlan, phase: BucketPhase, found: "Forecast") -> HeatMap:
    """The forecast's bytes of all graphs of a phase, shared out by what each bucket weighs."""
    from gaudi_runtime.buckets.bucket import weight

    foreseen = found.prompt if phase is BucketPhase.PROMPT else found.decode
    if found.plan is None or foreseen is None or foreseen.all_graph_bytes is None:
        raise ConfigError(f"nothing is known about the graphs of card {found.card}; choose another with --card")
    size = question.limits.block_size
    total = foreseen.all_graph_bytes
    rate = total.value / sum(weight(phase, bucket, size) for bucket in found.plan.of(phase))
    per = "token" if phase is BucketPhase.PROMPT else "sequence"
    source = f"{rate / 2**20:.2f} MiB a {per} for {found.model or 'a model'} on {found.card}, {total.confidence}: "
    return bytes_map(plan, phase, lambda bucket: rate * weight(phase, bucket, size), source + total.source)
