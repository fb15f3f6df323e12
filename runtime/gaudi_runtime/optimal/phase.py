"""One phase: from its traffic to the choice of its buckets, every admissible shape included."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.optimal.axes import choose_axes, round_up
from gaudi_runtime.optimal.ladder import Ladder, Rung
from gaudi_runtime.optimal.rows import Choice, Either, Kept, Selection, With
from gaudi_runtime.optimal.search import Search, Worth, check_rungs
from gaudi_runtime.optimal.smoothing import smooth
from gaudi_runtime.optimal.space import PromptSpace, Space

Weights = Mapping[Bucket, float]


def choice_of(space: Space, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    """All that is looked at for one phase; `traffic` holds admissible shapes only."""
    everything = _rows(space, traffic, cost, price)
    if not isinstance(space, PromptSpace) or not space.with_context:
        return everything
    return Either((everything, _context_in_corners(space, traffic, cost, price)))


def _rows(space: Space, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    axes = choose_axes(space, traffic)
    check_rungs(space, axes)
    return Search(space, axes, smooth(round_up(traffic, axes), axes), cost, price).choice()


def _context_in_corners(space: PromptSpace, traffic: Weights, cost: Worth, price: Worth) -> Choice:
    """Rows for prompts without context; all others share the few buckets that hold everything.

    Best where context is rare: no row pays for a bucket that only rare requests need.
    """
    plain = {shape: weight for shape, weight in traffic.items() if not shape.num_blocks}
    with_context = {shape: weight for shape, weight in traffic.items() if shape.num_blocks}
    rows = _rows(replace(space, with_context=False), plain, cost, price)
    return With(rows, _corners(space, with_context, cost, price))


def _corners(space: Space, traffic: Weights, cost: Worth, price: Worth) -> Selection:
    corners = space.corners()
    sizes = [corner.batch_size for corner in corners]
    weights = [0.0] * len(corners)
    for shape, weight in traffic.items():
        weights[bisect_left(sizes, shape.batch_size)] += weight
    rungs = (Rung(each, weight, cost(each), price(each)) for each, weight in zip(corners, weights, strict=True))
    kept = [Kept(Ladder(space.phase, [rung]), (0,)) for rung in rungs]
    return Selection(tuple(kept), sum(each.cost for each in kept), sum(each.price for each in kept))
