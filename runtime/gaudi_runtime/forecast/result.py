"""Forecast: the result of a forecast, with the sources and the confidence of its figures."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.catalog.figure import Figure
from gaudi_runtime.contract.report import BucketPhase, percent
from gaudi_runtime.errors import Problem


class Reason(StrEnum):
    """The reason why a forecast deployment does not fit."""

    PARALLELISM = "ParallelismImpossible"
    WEIGHTS_TOO_LARGE = "WeightsTooLarge"
    NO_KV_BLOCK = "NoKvBlock"
    SEQUENCE_TOO_LONG = "SequenceTooLong"
    PLAN_IMPOSSIBLE = "PlanImpossible"
    LENGTH = "LengthUnsupported"
    SETTING_REFUSED = "SettingRefused"
    GRAPHS_MISSING = "GraphsMissing"


@dataclass(frozen=True)
class MemoryForecast:
    """The memory forecast of the fullest card in the group, in bytes. `kv_blocks` is a count."""

    total: Figure
    weights: Figure
    workspace: Figure
    free: Figure
    usable: Figure
    graphs: Figure
    kv_cache: Figure
    block: Figure
    kv_blocks: Figure


@dataclass(frozen=True)
class PhaseForecast:
    """The forecast graphs of one phase. Unknown figures are None, and seconds are for the whole phase.

    `captured_buckets` contains the graphs that are expected to fit, in capture order. It is None if no graphs are
    captured, or if the memory or the bytes of a graph are unknown. `captured_at_best` is the number of graphs that fit
    with the lowest bytes of all sources. `graph_bytes` is the size of the captured graphs, and `all_graph_bytes` is the
    size of all planned graphs.
    """

    phase: BucketPhase
    planned: int
    captured_buckets: tuple[Bucket, ...] | None = None
    captured_at_best: int | None = None
    graph_bytes: Figure | None = None
    all_graph_bytes: Figure | None = None
    compile_seconds: Figure | None = None
    capture_seconds: Figure | None = None

    @property
    def captured_percent(self) -> int | None:
        """The captured share of the planned graphs in percent, rounded down; None without graphs or buckets."""
        return None if self.captured_buckets is None else percent(len(self.captured_buckets), self.planned)


Phases = Mapping[BucketPhase, PhaseForecast]


@dataclass(frozen=True)
class Forecast:
    """The forecast of a deployment. `memory` is None if the model's shape or the card's memory is unknown.

    `captures_graphs` is True if graphs are captured. If no plan is possible, `plan`, `prompt` and `decode` are None,
    and `problems` contains the reasons.
    """

    card: str
    model: str | None
    memory: MemoryForecast | None
    kv_blocks: Figure
    plan: BucketPlan | None
    prompt: PhaseForecast | None
    decode: PhaseForecast | None
    warmup_seconds: Figure | None
    captures_graphs: bool
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
