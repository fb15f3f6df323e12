"""The bucket that would have avoided most cold batches while serving (docs/reference/conditions.md, Recompiles).

The cost of the bucket is an estimate. Its bytes are estimated from the graphs that a pod has captured, and its seconds
from rates that were measured on a Gaudi 2.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from gaudi_operator.core.plan_answers import PlanQuestion, PlanTooExpensive
from gaudi_operator.core.rendering.runtime_config import bucket_policy, plan_limits
from gaudi_operator.core.rollout.state import State
from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.report import BucketPhase, MemorySplit, PhaseProgress, WarmupReport
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.planning.kept_plans import kept_plan
from gaudi_runtime.planning.optimal.cost import price_in_seconds
from gaudi_runtime.units import format_bytes

MOST_MISSES = 200
"""The maximum number of shapes to compare, most frequent first, because 1,000 pods may report 20,000 shapes."""

NO_GRAPH = (
    "The buckets of these batches are planned, but were left out after their compile. Raise "
    "spec.warmup.graphMemoryPercent, or plan fewer buckets."
)


class ColdBatches(NamedTuple):
    """Batches that ran without a warm graph: the smallest bucket that holds the batches, and their number."""

    phase: BucketPhase
    bucket: Bucket
    batch_count: int

    def holds(self, other: "ColdBatches") -> bool:
        """Return True if this bucket is large enough for the batches of `other`."""
        return self.phase is other.phase and all(map(int.__ge__, self.bucket, other.bucket))


def suggest_bucket(state: State) -> str | None:
    """Return a sentence that suggests a bucket for cold batches of the current revision, or None if there is none."""
    reports = {pod.name: pod.report for pod in state.serving_updated_pods if pod.report and pod.report.cold_shapes}
    spec = state.inference.spec
    for pod_name, report in reports.items():
        if report.memory is None:
            continue
        with suppress(PlanImpossible, PlanTooExpensive):
            limits, batches = (
                _use_reported_block_size(plan_limits(spec), report.memory),
                _count_cold_batches(reports.values()),
            )
            shapes = tuple(sorted(batches))
            question = CoveredShapesQuestion(bucket_policy(spec), limits, report.memory.kv_blocks, shapes)
            coverage = state.inference.answers.get(question)
            uncovered_shapes = set(shapes) - set(coverage.covered_shapes)
            misses = list(islice(_uncovered_batches(batches, uncovered_shapes, limits), MOST_MISSES))
            return _describe_best_bucket(misses, coverage, limits, pod_name, report) if misses else NO_GRAPH
    return None


class ColdShape(NamedTuple):
    """The shape of a batch that ran without a warm graph."""

    phase: BucketPhase
    batch: int
    query: int
    blocks: int


class GraphWeights(NamedTuple):
    """The number of buckets of a phase and the sum of their graph weights, to estimate the size of another graph.

    Weights are proportional to bytes.
    """

    bucket_count: int
    total_weight: int


@dataclass(frozen=True)
class CoveredShapes:
    """The cold shapes that already have a bucket in a plan, and the graph weights of this plan."""

    covered_shapes: tuple[ColdShape, ...]
    prompt: GraphWeights
    decode: GraphWeights


@dataclass(frozen=True)
class CoveredShapesQuestion(PlanQuestion[CoveredShapes]):
    """The plan question which of the cold `shapes` already have a bucket."""

    kind = CoveredShapes

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int
    shapes: tuple[ColdShape, ...]

    @property
    def size(self) -> int:
        """The maximum size in bytes, from measurements. Each shape needs two tuples of four numbers."""
        return 4 * 1024 + 400 * len(self.shapes)

    def answer(self) -> CoveredShapes:
        """Compute the plan, and find the shapes that have a bucket."""
        plan = kept_plan(self.policy, self.limits, self.kv_blocks)
        weights = {
            phase: GraphWeights(
                len(plan.buckets_of(phase)),
                sum(bucket_weight(phase, bucket, self.limits.block_size) for bucket in plan.buckets_of(phase)),
            )
            for phase in BucketPhase
        }
        covered_shapes = tuple(shape for shape in self.shapes if plan.find(*shape) is not None)
        return CoveredShapes(covered_shapes, weights[BucketPhase.PROMPT], weights[BucketPhase.DECODE])


def _use_reported_block_size(limits: Limits, memory: MemorySplit) -> Limits:
    """Return the limits with the block size that the engine reported."""
    return limits.model_copy(update={"block_size": memory.block_size}) if memory.block_size else limits


def _count_cold_batches(reports: Iterable[WarmupReport]) -> Counter[ColdShape]:
    batches = Counter[ColdShape]()
    for cold_shape in (cold_shape for report in reports for cold_shape in report.cold_shapes):
        batches[ColdShape(cold_shape.phase, *(cold_shape.needed or cold_shape.shape))] += cold_shape.count
    return batches


def _uncovered_batches(
    batches: Counter[ColdShape], uncovered_shapes: Container[ColdShape], limits: Limits
) -> Iterator[ColdBatches]:
    """Yield batches without a bucket, most frequent first. Queries are rounded up to whole blocks, as in plans."""
    for shape, batch_count in batches.most_common():
        # Skip shapes that have a bucket. They were slow because their graph is missing, and a new bucket would not get
        # a graph either.
        if shape not in uncovered_shapes:
            continue
        phase, batch, query, blocks = shape
        if phase is BucketPhase.PROMPT:
            query = min(-(-query // limits.block_size) * limits.block_size, max(query, limits.max_num_batched_tokens))
        yield ColdBatches(phase, Bucket(batch, query, blocks), batch_count)


def _describe_best_bucket(
    misses: Sequence[ColdBatches], coverage: CoveredShapes, limits: Limits, pod: str, report: WarmupReport
) -> str:
    def count_held_batches(miss: ColdBatches) -> int:
        return sum(other.batch_count for other in misses if miss.holds(other))

    best = max(
        misses, key=lambda miss: (count_held_batches(miss), -bucket_weight(miss.phase, miss.bucket, limits.block_size))
    )
    total_batches = sum(miss.batch_count for miss in misses)
    # Report a percentage. A count would change the status with every batch.
    share = f"{count_held_batches(best) * 100 // total_batches} % of the batches"
    return (
        f"One more {best.phase} bucket {tuple(best.bucket)} would hold {share} without a warm graph, and would take "
        f"{_describe_bucket_cost(best, coverage, limits, pod, report)}. `kubectl gaudi plan learn` plans for all "
        "observed batches."
    )


def _describe_bucket_cost(
    miss: ColdBatches, coverage: CoveredShapes, limits: Limits, pod: str, report: WarmupReport
) -> str:
    progress = report.prompt if miss.phase is BucketPhase.PROMPT else report.decode
    warmup_time = f"about {price_in_seconds(miss.phase, miss.bucket):.2g} s of warm-up (at the rate of a Gaudi 2)"
    if not progress.captured:
        return warmup_time
    weights = coverage.prompt if miss.phase is BucketPhase.PROMPT else coverage.decode
    nbytes = _estimate_graph_bytes(miss, weights, limits, progress)
    return f"about {format_bytes(nbytes)} of memory (at the rate of pod {pod}) and {warmup_time}"


def _estimate_graph_bytes(miss: ColdBatches, weights: GraphWeights, limits: Limits, progress: PhaseProgress) -> int:
    """Return the estimated bytes of a graph: by its weight if all graphs are captured, otherwise the mean."""
    if progress.captured < weights.bucket_count:
        return progress.graph_bytes // progress.captured
    return progress.graph_bytes * bucket_weight(miss.phase, miss.bucket, limits.block_size) // weights.total_weight
