"""WarmupReport: the answer of `GET /v1/warmup`, the operator's only source of information about a pod's graphs.

The report contains durations, but no times of the pod's clock. It is smaller than MAX_REPORT_BYTES.
"""

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.contract.compiles import MAX_STEP_COMPILES, CompileTimes, StepCompiles
from gaudi_runtime.contract.preparation import Preparation, PreparationSkipCause
from gaudi_runtime.contract.report_fields import Bytes, Count, Large, PaddingRatio, Seconds, Shape, ShortText, Text

MAX_REPORT_BYTES = 256 * 1024
MAX_SKIPPED = 50
MAX_COLD_SHAPES = 20
MAX_WARNINGS = 50
MAX_ARGUMENTS = 200
MAX_SERVED_BUCKETS = 32
MAX_NAMED_VISION = 10
RECENT_SECONDS = 300
"""The age in seconds up to which a recompilation counts as recent."""
FEWEST_PROMPTS = 200
"""The number of prompt batches after which the padding of a learned plan is compared with its forecast.

In this many batches, traffic of the learned service pads at most 9 % more than forecast
(docs/internals/performance.md).
"""
NO_PLAN = "0" * 64
"""Plan hash of an instance whose configuration cannot be read. It is not the hash of any revision."""

_WORD = r"^[!-~]*$"


class Phase(StrEnum):
    """The phases of start-up in the contract's report, in order. FAILED is final for a container instance."""

    STARTING = "Starting"
    FETCHING = "Fetching"
    LOADING = "Loading"
    PROFILING = "Profiling"
    ALLOCATING = "Allocating"
    COMPILING = "Compiling"
    SAMPLER = "Sampler"
    DEFRAGMENTER = "Defragmenter"
    CAPTURING = "Capturing"
    SERVING = "Serving"
    DRAINING = "Draining"
    FAILED = "Failed"

    @property
    def is_settled(self) -> bool:
        """Whether start-up has ended, successfully or not."""
        return self in (Phase.SERVING, Phase.DRAINING, Phase.FAILED)


class BucketPhase(StrEnum):
    """The phase of a bucket in the contract's report: prompt batches or decode batches use the bucket."""

    PROMPT = "prompt"
    DECODE = "decode"


class SkippedBucketReport(TolerantModel):
    """A bucket in the contract's report that is cold or has no graph, with the rule or event that caused this."""

    phase: BucketPhase
    bucket: Shape
    reason: Text
    cause: PreparationSkipCause = PreparationSkipCause.FAILURE
    graph_bytes: Bytes = Field(0, description="Estimated bytes of a graph that was left out for memory.")


class PhaseProgressReport(TolerantModel):
    """The warm-up progress of one phase in the contract's report. Each count is a part of `planned`.

    See docs/internals/warmup.md, Percentages.
    """

    planned: Count = 0
    warmed: Count = 0
    captured: Count = Field(0, description="Buckets whose graph was captured, or that were executed a second time.")
    preparation: Preparation = Preparation.CAPTURE
    left_out_by_limit: Count = Field(0, description="Buckets that a limit in the spec left out.")
    left_out_for_memory: Count = Field(0, description="Buckets that were left out for the memory of graphs.")
    left_out_bytes: Bytes = Field(0, description="Estimated bytes of the buckets that were left out for memory.")
    graph_bytes: Bytes = Field(0, description="Measured bytes of the captured graphs.")
    cached: Count = Field(0, description="Planned buckets whose recipe was in the recipe cache at start.")
    current: Shape | None = Field(None, description="(batch size, query tokens, KV blocks) of the current step.")
    forecast_seconds: Seconds | None = Field(
        None, description="The time of `current`, estimated from similar steps that were measured."
    )

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if max(self.warmed, self.captured, self.cached) > self.planned:
            raise ValueError(f"a count of buckets exceeds the {self.planned} planned buckets")
        return self

    @property
    def has_second_step(self) -> bool:
        """Whether each bucket has a second step after its compile."""
        return self.preparation is not Preparation.NOTHING

    @property
    def prepared(self) -> int:
        """The number of buckets that have completed their last step."""
        return self.captured if self.has_second_step else self.warmed

    @property
    def failed(self) -> int:
        """The number of buckets that are neither prepared nor left out by a limit or for memory."""
        left_out = self.left_out_by_limit + self.left_out_for_memory
        return max(0, self.planned - self.prepared - left_out)


class VisionBucket(NamedTuple):
    """A vision bucket in the contract's report: items of one modality and one size in pixels that run together."""

    modality: Annotated[str, Field(max_length=64, pattern=_WORD)]
    width: Large
    height: Large
    items: Count

    def __str__(self) -> str:
        return f"{self.modality} {self.width}x{self.height}x{self.items}"


class SkippedVisionBucketReport(TolerantModel):
    """A planned vision bucket in the contract's report that stayed cold, with the reason."""

    bucket: VisionBucket
    reason: ShortText


class VisionProgressReport(TolerantModel):
    """The progress of the vision tower in the contract's report (docs/internals/warmup.md, Percentages)."""

    planned: Count = 0
    warmed: Count = Field(0, description="Buckets that ran; in modes with graphs of the tower, these are captured.")
    current: VisionBucket | None = Field(None, description="The bucket of the current step.")
    device_bytes: Bytes = Field(0, description="Measured bytes of device memory that these buckets took.")
    skipped: Annotated[tuple[SkippedVisionBucketReport, ...], Field(max_length=MAX_NAMED_VISION)] = Field(
        (), description="The first of those that stay cold."
    )

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.warmed > self.planned:
            raise ValueError(f"the count of warm vision buckets exceeds the {self.planned} planned vision buckets")
        return self


class MemorySplitReport(TolerantModel):
    """The memory split in the contract's report, in bytes (docs/internals/warmup.md, Memory split)."""

    free: Bytes
    usable: Bytes
    graphs: Bytes
    kv_cache: Bytes
    kv_blocks: Large
    block_size: Large | None = Field(None, description="Tokens of a KV block in the engine.")


class PlanGapsReport(TolerantModel):
    """The gaps of the plan in the contract's report: ranges of admissible batches without a bucket, by phase."""

    prompt: Count = 0
    decode: Count = 0
    message: Text | None = Field(None, description="The uncovered batches as a clause; none without gaps.")


class CapturableGraphsReport(TolerantModel):
    """The graphs that no limit in the spec excludes, in the contract's report, known before the first capture."""

    prompt: Count
    decode: Count


class FetchProgressReport(TolerantModel):
    """The progress of fetching the model in the contract's report (docs/how-to/model-sources.md)."""

    done_bytes: Bytes
    total_bytes: Bytes | None = Field(None, description="Unknown while another process fetches.")
    waiting: bool = Field(False, description="Another process fetches into the same folder; this one waits for it.")


class SharedRecipesOutcome(StrEnum):
    """The outcome of shared recipes in the contract's report (docs/how-to/recipe-cache.md)."""

    HIT = "Hit"
    SEEDING = "Seeding"
    SEEDED = "Seeded"
    MISS = "Miss"


class SharedRecipesReport(TolerantModel):
    """The use of shared recipes by this start in the contract's report."""

    outcome: SharedRecipesOutcome = Field(
        description="Hit: recipes were copied. Seeding: there were none, and those of warm-up will be added;"
        " Seeded: they were added. Miss: recipes can be neither read nor added."
    )
    reason: Text | None = Field(None, description="Why recipes could not be read or added.")
    seconds: Seconds = Field(0.0, description="The time of finding recipes and copying them to the pod's disk.")


class ColdShape(TolerantModel):
    """A shape in the contract's report whose served batches had no warm graph, and the number of these batches."""

    phase: BucketPhase
    shape: Shape
    count: Count
    compiles: Count = 0
    needed: Shape | None = Field(None, description="The smallest bucket that holds all these batches before padding.")


class ServedPhaseReport(TolerantModel):
    """Served batches of one phase in the contract's report (docs/how-to/plan-buckets.md, Hits and misses).

    The tokens of a batch are batch size * query tokens. The blocks of a batch are the blocks of all its sequences.
    Fields that begin with `real_` are counted before padding, and fields that begin with `padded_` after padding.
    """

    hits: Large = Field(0, description="Batches with a warm graph.")
    misses: Large = Field(0, description="Batches without one.")
    recompiles: Count = Field(0, description="Recompilations of the forwards of these batches.")
    real_tokens: Large = 0
    padded_tokens: Large = 0
    real_blocks: Large = 0
    padded_blocks: Large = 0
    padding: PaddingRatio | None = Field(
        None, description="Padded over real compute of these batches. Only with a plan that was learned from traffic."
    )
    forecast_padding: PaddingRatio | None = Field(
        None, description="The same ratio of the traffic that the plan was learned from, in batches of the same sizes."
    )


class ServedBucketReport(TolerantModel):
    """Batches of one shape in the contract's report. Their padding is the shape minus the real tokens and blocks."""

    phase: BucketPhase
    bucket: Shape
    hits: Large
    misses: Large
    real_tokens: Large
    real_blocks: Large


class ServedVisionReport(TolerantModel):
    """Runs of the vision tower while serving in the contract's report."""

    hits: Large = Field(0, description="Runs of sizes that the tower had run before.")
    misses: Large = Field(0, description="Runs of other sizes.")
    recompiles: Count = Field(0, description="Compiles that these runs waited for.")
    cold: Annotated[tuple[ShortText, ...], Field(max_length=MAX_NAMED_VISION)] = Field(
        (), description="Inputs of the first runs that missed, as the model has them."
    )


class ServedTrafficReport(TolerantModel):
    """The served shapes in the contract's report. They may be one poll old, and a change causes no new report."""

    prompt: ServedPhaseReport = ServedPhaseReport()
    decode: ServedPhaseReport = ServedPhaseReport()
    vision: ServedVisionReport | None = Field(None, description="Only with a vision tower that is observed.")
    buckets: Annotated[tuple[ServedBucketReport, ...], Field(max_length=MAX_SERVED_BUCKETS)] = Field(
        (), description="The most frequent shapes of both phases."
    )
    step_compiles: Annotated[tuple[StepCompiles, ...], Field(max_length=MAX_STEP_COMPILES)] = Field(
        (), description="Recompilations by part of a step and kind of request; those that took longest first."
    )
    small_compiles: Count = Field(
        0, description="Forwards and other parts of steps whose compiles were too short to count as a recompilation."
    )
    compile_times: Annotated[tuple[CompileTimes, ...], Field(max_length=8)] = ()


class RequestCountsReport(TolerantModel):
    """Counts of requests in the contract's report. They may be one poll old; only a new failure causes a new report."""

    running: Large = Field(0, description="Requests in work now, including those that wait for a place.")
    answered: Large = Field(0, description="Answers since this instance serves, including refusals and failures.")
    failed: Large = Field(0, description="Answers with a status of 500 or more, and incomplete streams.")


class RuntimeFailureReport(TolerantModel):
    """The failure of a container instance in the contract's report: a stable reason, and a message with the remedy."""

    reason: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    message: Text


class WarmupReport(TolerantModel):
    """The contract's warm-up report of one container instance. `sequence` increases with every change."""

    version: Literal["v1"] = "v1"
    instance: Annotated[str, Field(min_length=1, max_length=64, pattern=_WORD)] = Field(
        description="Random for each process start: a restarted container never has the gate of the one before."
    )
    sequence: Large
    plan_hash: Annotated[str, Field(min_length=64, max_length=64, pattern=_WORD)]
    buckets_digest: Annotated[str, Field(max_length=64, pattern=_WORD)] | None = None
    phase: Phase
    prompt: PhaseProgressReport = PhaseProgressReport()
    decode: PhaseProgressReport = PhaseProgressReport()
    vision: VisionProgressReport | None = Field(None, description="Only of a model whose vision tower is warmed up.")
    warmup_skipped: bool = Field(
        False, description="Warm-up is disabled: nothing is warmed or captured, and shapes compile on demand."
    )
    sampler_done: bool = False
    defragmenter_done: bool = False
    skipped: Annotated[tuple[SkippedBucketReport, ...], Field(max_length=MAX_SKIPPED)] = ()
    skipped_total: Count = 0
    memory: MemorySplitReport | None = None
    gaps: PlanGapsReport | None = Field(None, description="With the plan, for the KV blocks in `memory`.")
    capturable: CapturableGraphsReport | None = Field(None, description="With the plan, in modes that capture graphs.")
    workspace_bytes: Bytes = Field(
        0, description="Memory that the largest bucket of each phase took when it was executed before the captures."
    )
    fetch: FetchProgressReport | None = Field(None, description="Only if the runtime itself fetches the model.")
    elapsed_seconds: Seconds = 0.0
    since_progress_seconds: Seconds = Field(
        0.0, description="Time since the last progress; compared with stallTimeout."
    )
    eta_seconds: Seconds | None = Field(None, description="Estimated rest of warm-up, in seconds.")
    compiles: Large = 0
    shared_recipes: SharedRecipesReport | None = Field(None, description="Only where pods share recipes.")
    recipe_seconds_saved: Seconds = Field(
        0.0,
        description="The compile time of the buckets with a recipe in the process that compiled them, less their time"
        " here and the time of copying the recipes; all measured.",
    )
    recompiles_since_ready: Count = 0
    recent_recompiles: Count = Field(0, description="Recompilations of the last five minutes.")
    cold_shapes: Annotated[tuple[ColdShape, ...], Field(max_length=MAX_COLD_SHAPES)] = ()
    served: ServedTrafficReport = ServedTrafficReport()
    requests: RequestCountsReport = RequestCountsReport()
    warnings: Annotated[tuple[Text, ...], Field(max_length=MAX_WARNINGS)] = ()
    simulated: bool = False
    releases: Text | None = Field(
        None,
        description="The releases that drive a card and how they were tested, in a sentence; only of engine vllm.",
    )
    engine_arguments: Annotated[tuple[Text, ...], Field(max_length=MAX_ARGUMENTS)] = Field(
        (), description="The arguments of the engine's own processes; only with engine vllm."
    )
    failure: RuntimeFailureReport | None = None


def percent(part: int, planned: int) -> int | None:
    """Return `part` of `planned` buckets in the contract's report in percent, rounded down; None if `planned` is 0."""
    return None if planned == 0 else part * 100 // planned  # rounded down: 999 of 1000 are not 100 %


def reaches_percent(part: int, planned: int, min_percent: int) -> bool | None:
    """Return True if `part` of the `planned` buckets in the contract's report reaches `min_percent`.

    The comparison does not round. The result is None if `planned` is 0.
    """
    return None if planned == 0 else part * 100 >= min_percent * planned
