"""The difference between strategy Optimal and the best plan, on traffic that is small enough to try all plans.

The strategy adds and exchanges buckets one by one. This benchmark tries every set of buckets that covers every
admissible batch. The traffic is small and random, and each request uses the bucket that `find` returns.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from operator import le

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.planning.optimal.admissible_shapes import DecodeShapeSpace, PromptShapeSpace, ShapeSpace
from gaudi_runtime.planning.optimal.axes import choose_axes
from gaudi_runtime.planning.optimal.cost import price_in_graphs
from gaudi_runtime.planning.optimal.fewest_graphs import FewestGraphsReference, find_fewest_buckets
from gaudi_runtime.planning.optimal.optimizer import optimize_within_budget
from gaudi_runtime.planning.optimal.prior import PriorTrafficKind
from gaudi_runtime.planning.optimal.search import Search, SearchPhaseInput
from tests.support.token_cost import token_cost

BLOCK = 2
INSTANCES = 12
DECODE = Limits(
    max_model_len=4, max_num_seqs=3, max_num_batched_tokens=8, block_size=BLOCK, contiguous_paged_attention=False
)
CONTEXT = Limits(max_model_len=8, max_num_seqs=4, max_num_batched_tokens=8, block_size=BLOCK, prefix_caching=True)
BATCHED = Limits(
    max_model_len=6,
    max_num_seqs=4,
    max_num_prefill_seqs=2,
    max_num_batched_tokens=12,
    block_size=BLOCK,
    prefix_caching=True,
)
KV_BLOCKS = 8
SPACES: Mapping[str, tuple[ShapeSpace, int]] = {
    "2 dimensions, decode (batch, blocks)": (DecodeShapeSpace(DECODE, KV_BLOCKS), 4),
    "2 dimensions, prompt (query, context)": (PromptShapeSpace(CONTEXT, with_context=True), 5),
    "3 dimensions, prompt (batch, query, context)": (PromptShapeSpace(BATCHED, with_context=True), 4),
}


def gaps(name: str) -> list[float]:
    """Return, for random traffic, the padding cost above that of the best plan, as a share of it."""
    space, graphs = SPACES[name]
    return [_gap(space, graphs, random.Random(seed)) for seed in range(INSTANCES)]  # noqa: S311


def _gap(space: ShapeSpace, graphs: int, chance: random.Random) -> float:
    shapes = filter(space.admits, _grid(space))
    traffic = {shape: chance.expovariate(1.0) ** 2 for shape in shapes}
    best = min(_cost(space, plan, traffic) for plan in _plans(space, graphs))
    return _cost(space, _chosen(space, traffic, graphs), traffic) / best - 1


FEWEST = dict(zip(SPACES, (DECODE, CONTEXT), strict=False))
"""The spaces that are small enough to try plans of any number of graphs, with their limits."""


def excesses(name: str) -> list[int]:
    """Return, for random traffic, the graphs above the fewest that pad no more than a rival plan."""
    return [_excess(name, random.Random(seed)) for seed in range(INSTANCES)]  # noqa: S311


def _excess(name: str, chance: random.Random) -> int:
    space, _ = SPACES[name]
    shapes = list(filter(space.admits, _grid(space)))
    traffic = PriorTrafficKind("traffic", {shape: chance.expovariate(1.0) ** 2 for shape in shapes})
    buckets = tuple(sorted({*space.covering_buckets(), *chance.sample(shapes, chance.randint(3, 6))}))
    rival = FewestGraphsReference(BucketPlan(buckets, buckets), FEWEST[name], token_cost(BLOCK))
    most = rival.most_compute(space.phase, traffic)
    found = find_fewest_buckets(space.phase, (traffic,), KV_BLOCKS, rival)
    if _cost(space, found, traffic.weights) > most:
        raise AssertionError(f"{found} pads more than {buckets}")
    counts = range(len(space.covering_buckets()), len(buckets) + 1)
    least = next(
        count for count in counts if any(_cost(space, each, traffic.weights) <= most for each in _plans(space, count))
    )
    return len(found) - least


def _grid(space: ShapeSpace) -> list[Bucket]:
    """Return every shape that combines values of the dimensions."""
    return list(map(Bucket._make, product(*choose_axes(space, {}))))


def _plans(space: ShapeSpace, graphs: int) -> Iterator[tuple[Bucket, ...]]:
    """Yield every set of `graphs` buckets within the limits that covers every admissible shape."""
    corners = space.covering_buckets()
    others = [
        shape
        for shape in _grid(space)
        if shape not in corners and any(all(map(le, shape, corner)) for corner in corners)
    ]
    for chosen in combinations(others, graphs - len(corners)):
        yield tuple(sorted((*corners, *chosen)))


def _chosen(space: ShapeSpace, traffic: Mapping[Bucket, float], graphs: int) -> tuple[Bucket, ...]:
    search = Search([SearchPhaseInput(space, choose_axes(space, {}), traffic)], token_cost(BLOCK), price_in_graphs)
    optimize_within_budget(search, graphs)
    return search.buckets(space.phase)


def _cost(space: ShapeSpace, plan: Sequence[Bucket], traffic: Mapping[Bucket, float]) -> float:
    cost = token_cost(BLOCK)
    return sum(weight * cost(space.phase, _first_fitting(plan, shape)) for shape, weight in traffic.items())


def _first_fitting(plan: Sequence[Bucket], shape: Bucket) -> Bucket:
    return next(b for b in plan if b[0] >= shape[0] and b[1] >= shape[1] and b[2] >= shape[2])
