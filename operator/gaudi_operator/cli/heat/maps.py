"""The heat maps of a plan: padding, graph bytes, hits."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import log

from gaudi_operator.cli.heat.amounts import byte_text, count_text
from gaudi_operator.cli.heat.heat_map import MISS, Cell, HeatMap, Place
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase


def bytes_map(plan: BucketPlan, phase: BucketPhase, bytes_of: Callable[[Bucket], float], source: str) -> HeatMap:
    """Estimated bytes of the graphs of every cell, all contexts together; `source` says where the estimate is from."""
    amounts = _sums(plan, phase, bytes_of)
    total = byte_text(sum(amounts.values()))
    return _map(
        phase, plan.of(phase), _hot(amounts, byte_text).get, f"Estimated graph memory, {total} in all: {source}."
    )


def hits_map(plan: BucketPlan, phase: BucketPhase, hits: Mapping[Bucket, int], source: str) -> HeatMap:
    """How many batches met the buckets of every cell; `source` names the traffic."""
    amounts = _sums(plan, phase, lambda bucket: hits.get(bucket, 0))
    return _map(
        phase, plan.of(phase), _hot(amounts, count_text).get, f"Batches that are padded to each bucket: {source}."
    )


def padding_map(plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> HeatMap:
    """Mean padding of the shapes between a bucket and its smaller neighbours, in percent of what is computed.

    Every shape counts alike, whether requests have it or not. Prompts: tokens without cached context; decode: batch
    size * KV blocks. A cell whose shapes find no bucket is a miss (docs/bucketing.md, Coverage).
    """
    counted = "batch size * tokens, no cached context" if phase is BucketPhase.PROMPT else "batch size * KV blocks"
    caption = f"Mean padding of the shapes that end there ({counted}), every shape alike; none = no bucket."
    return _map(phase, plan.of(phase), _Padding(plan, phase, limits, kv_blocks).cell, caption)


def change_map(
    phase: BucketPhase, kept: Sequence[Bucket], added: Sequence[Bucket], dropped: Sequence[Bucket]
) -> HeatMap:
    """Where two plans differ; a prompt cell counts all its contexts together."""
    counts: defaultdict[Place, Counter[str]] = defaultdict(Counter)
    for sign, buckets in (("=", kept), ("+", added), ("-", dropped)):
        for bucket in buckets:
            counts[bucket.batch_size, length_of(phase, bucket)][sign] += 1
    cells = {place: _change_cell(count) for place, count in counts.items()}
    drawn = _map(phase, (*kept, *added, *dropped), cells.get, "= kept, + added, - dropped; dark is dropped.")
    before, after = len(kept) + len(dropped), len(kept) + len(added)
    return replace(drawn, title=f"{before} -> {after} {drawn.title.split(' ', 1)[1]}")


def _change_cell(count: Counter[str]) -> Cell:
    text = "".join(f"{sign}{count[sign]}" for sign in "+-" if count[sign])
    heat = {(True, False): 0.3, (True, True): 0.6, (False, True): 0.9}
    return Cell(text, heat[count["+"] > 0, count["-"] > 0]) if text else Cell("=", 0.0)


def length_of(phase: BucketPhase, bucket: Bucket) -> int:
    """The dimension that stands beside the batch size: query tokens of a prompt, KV blocks of a decode batch."""
    return bucket.query_len if phase is BucketPhase.PROMPT else bucket.num_blocks


def _map(phase: BucketPhase, buckets: Sequence[Bucket], cell: Callable[[Place], Cell | None], caption: str) -> HeatMap:
    down = "query tokens" if phase is BucketPhase.PROMPT else "KV blocks of the batch"
    return HeatMap(
        title=f"{len(buckets)} {phase} buckets: batch size across, {down} down",
        caption=caption,
        batches=sorted({bucket.batch_size for bucket in buckets}),
        lengths=sorted({length_of(phase, bucket) for bucket in buckets}),
        cell=cell,
    )


def _sums(plan: BucketPlan, phase: BucketPhase, amount: Callable[[Bucket], float]) -> dict[Place, float]:
    sums: defaultdict[Place, float] = defaultdict(float)
    for bucket in plan.of(phase):
        sums[bucket.batch_size, length_of(phase, bucket)] += amount(bucket)
    return sums


def _hot(amounts: Mapping[Place, float], text: Callable[[float], str]) -> dict[Place, Cell]:
    """Amounts span decades, so heat grows with their logarithm, from the least above zero to the most."""
    some = [amount for amount in amounts.values() if amount > 0] or [1.0]
    low, span = log(min(some)), log(max(some) / min(some)) or 1.0
    return {
        place: Cell(text(amount), min(1.0, max(0.05, (log(amount) - low) / span)) if amount > 0 else 0.0)
        for place, amount in amounts.items()
    }


class _Padding:
    """The padding of one phase, cell by cell."""

    def __init__(self, plan: BucketPlan, phase: BucketPhase, limits: Limits, kv_blocks: int) -> None:
        self._plan, self._phase, self._limits, self._kv_blocks = plan, phase, limits, kv_blocks
        self._fewer = _before({bucket.batch_size for bucket in plan.of(phase)})
        self._shorter = _before({length_of(phase, bucket) for bucket in plan.of(phase)})

    def cell(self, place: Place) -> Cell | None:
        batch, length = place
        fewest, shortest = self._fewer[batch] + 1, self._shorter[length] + 1
        if length == 0 or not _admits(self._phase, self._limits, self._kv_blocks, (fewest, batch), (shortest, length)):
            return None
        query, blocks = (length, 0) if self._phase is BucketPhase.PROMPT else (1, length)
        found = self._plan.find(self._phase, batch, query, blocks)
        if found is None:
            return MISS
        asked = (fewest + batch) / 2 * (shortest + length) / 2
        padding = 1 - asked / (found.batch_size * length_of(self._phase, found))
        return Cell(f"{padding:.0%}", padding)


def _before(values: Iterable[int]) -> dict[int, int]:
    """Every value with the next smaller one; 0 for the smallest."""
    ordered = sorted(values)
    return dict(zip(ordered, [0, *ordered], strict=False))


def _admits(phase: BucketPhase, limits: Limits, kv_blocks: int, batch: Place, length: Place) -> bool:
    """Whether a request can have a shape of the cell; `batch` and `length` are its (smallest, largest) values."""
    if phase is BucketPhase.PROMPT:
        return length[0] <= limits.max_model_len and batch[0] * length[0] <= limits.max_num_batched_tokens
    if limits.contiguous_paged_attention:
        return length[0] <= kv_blocks
    referenced = batch[1] * -(-limits.max_model_len // limits.block_size)
    return length[0] <= min(referenced, kv_blocks) and batch[0] <= length[1]
