"""Which heat maps answer a question, and where their figures come from."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from gaudi_operator.cli.heat.heat_map import HeatMap
from gaudi_operator.cli.heat.maps import bytes_map, padding_map
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from gaudi_runtime.figure import Figure

DEFAULT_CARD = "gaudi2"


class Heat(StrEnum):
    """What the colours of a heat map mean."""

    PADDING = "padding"
    BYTES = "bytes"


def heat_maps(question: PlanQuestion, plan: BucketPlan, heat: Heat, card: str | None) -> list[HeatMap]:
    """One map per phase. Raises ConfigError when the figures that a map needs are unknown."""
    if heat is Heat.PADDING:
        return [padding_map(plan, phase, question.limits, question.blocks) for phase in BucketPhase]
    return _bytes_maps(question, plan, card or _card_of(question))


def _card_of(question: PlanQuestion) -> str:
    inference = question.inference
    return str(inference.spec.accelerator.generation) if inference else DEFAULT_CARD


def _bytes_maps(question: PlanQuestion, plan: BucketPlan, card: str) -> list[HeatMap]:
    from gaudi_runtime.cards.catalog import card_named

    rates = card_named(card).rates
    if rates is None:
        raise ConfigError(f"nothing is known about the graphs of card {card}; choose another with --card")
    per_token, per_sequence = rates.prompt_graph_bytes_per_token, rates.decode_graph_bytes_per_sequence
    return [
        _bytes_map(question, plan, BucketPhase.PROMPT, per_token, f"a prompt token, {rates.model}"),
        _bytes_map(question, plan, BucketPhase.DECODE, per_sequence, f"a decode sequence, {rates.model}"),
    ]


def _bytes_map(question: PlanQuestion, plan: BucketPlan, phase: BucketPhase, rate: "Figure", per: str) -> HeatMap:
    source = f"{rate.value / 2**20:.2f} MiB {per} ({rate.confidence}: {rate.source})"
    return bytes_map(plan, phase, _bytes_of(phase, question.limits.block_size, rate.value), source)


def _bytes_of(phase: BucketPhase, block_size: int, rate: float) -> Callable[[Bucket], float]:
    from gaudi_runtime.warmup.order import weight

    return lambda bucket: rate * weight(phase, bucket, block_size)
