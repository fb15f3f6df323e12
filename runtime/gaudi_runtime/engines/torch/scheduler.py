"""The scheduler: prompts run first, then one decode step for all sequences. This module does not import torch."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.engines.torch.block_manager import BlockManager


@dataclass(eq=False)
class Sequence:
    """A sequence that the torch engine schedules: a prompt and its growing answer.

    `computed_count` is the number of leading tokens whose keys and values are in the cache. `blocks` are the KV blocks
    of these tokens, in order of position. A preempted sequence has no blocks and recomputes all its tokens as a prompt.
    """

    prompt: tuple[int, ...]
    sampling: SamplingParams
    seed: int
    tokens: list[int] = field(init=False)
    blocks: list[int] = field(default_factory=list)
    computed_count: int = 0

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    @property
    def pending_count(self) -> int:
        """The number of tokens that are not in the cache yet."""
        return len(self.tokens) - self.computed_count

    @property
    def generated_count(self) -> int:
        """The number of answer tokens so far."""
        return len(self.tokens) - len(self.prompt)


@dataclass(frozen=True)
class BatchRow:
    """One row of a scheduled batch. It is a copy, so that a cancelled sequence cannot change a running forward.

    `tokens` have the positions `start`, `start + 1`, and so on. `is_sampled` is True only for the last part of a prompt
    and for decode rows.
    """

    sequence: Sequence
    tokens: tuple[int, ...]
    start: int
    blocks: tuple[int, ...]
    is_sampled: bool


@dataclass(frozen=True)
class Batch:
    """A scheduled batch: rows of one phase, and the exact shape of the batch before it is padded to a bucket."""

    phase: BucketPhase
    rows: tuple[BatchRow, ...]
    shape: Bucket


Planned = Callable[[BucketPhase, Bucket], bool]
"""Returns whether some bucket of the plan holds this shape."""


class Scheduler:
    """The scheduler of the torch engine. It keeps waiting and running sequences, the oldest first."""

    def __init__(self, limits: Limits, blocks: BlockManager, is_planned: Planned) -> None:
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.blocks = blocks
        self._limits = limits
        self._is_planned = is_planned

    def add(self, sequence: Sequence) -> None:
        """Add a sequence to the queue. The caller has checked the sequence with `why_not_admissible`."""
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Remove a finished or cancelled sequence and free its blocks; a second call does nothing."""
        if sequence in self.running:
            self.running.remove(sequence)
            self._free_blocks(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def next_batch(self) -> Batch | None:
        """Return the next batch; None if there is no work."""
        return self._schedule_prompts() or self._schedule_decode()

    def compact(self, threshold: int, max_moves: int) -> dict[int, int]:
        """Renumber KV blocks and return the moves: old id -> new id. The caller copies the contents of the blocks."""
        moves = self.blocks.compact(threshold, max_moves)
        if moves:
            for sequence in self.running:
                sequence.blocks = [moves.get(block, block) for block in sequence.blocks]
        return moves

    def _schedule_prompts(self) -> Batch | None:
        """Return prompts in order of arrival that fit a planned bucket. The first prompt is always included."""
        rows: list[BatchRow] = []
        shape = Bucket(0, 0, 0)
        for sequence in self._prompt_candidates():
            new_shape = self._shape_with_sequence(shape, sequence)
            # Accept the first prompt even if no bucket is large enough. Otherwise the prompt would wait forever.
            if rows and not self._fits(new_shape):
                break
            if not sequence.blocks and not self._admit(sequence):
                break
            rows.append(self._prompt_row(sequence))
            shape = new_shape
        return Batch(BucketPhase.PROMPT, tuple(rows), shape) if rows else None

    def _prompt_candidates(self) -> Iterator[Sequence]:
        """Yield first the prompts that are partly computed, then the waiting prompts."""
        yield from [sequence for sequence in self.running if sequence.pending_count > 1]
        yield from list(self.waiting)

    def _shape_with_sequence(self, shape: Bucket, sequence: Sequence) -> Bucket:
        """Return the shape of a prompt batch with one more sequence. Only one chunk of a long prompt is added."""
        query_len = min(sequence.pending_count, self._limits.max_num_batched_tokens)
        return Bucket(
            shape.batch_size + 1,
            max(shape.query_len, query_len),
            max(shape.num_blocks, self._blocks_needed(sequence.computed_count)),
        )

    def _fits(self, shape: Bucket) -> bool:
        return (
            shape.batch_size <= self._limits.max_num_prefill_seqs
            and shape.batch_size * shape.query_len <= self._limits.max_num_batched_tokens
            and self._is_planned(BucketPhase.PROMPT, shape)
        )

    def _admit(self, sequence: Sequence) -> bool:
        """Allocate the blocks of a waiting sequence. Return False if too few blocks or places are free."""
        # Keep one free block for each running sequence. Otherwise a running sequence would soon need a block, and the
        # new sequence would be preempted.
        needed_blocks = self._blocks_needed(len(sequence.tokens))
        if len(self.running) >= self._limits.max_num_seqs or self.blocks.free_count < needed_blocks + len(self.running):
            return False
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.blocks = self.blocks.allocate(needed_blocks)
        return True

    def _prompt_row(self, sequence: Sequence) -> BatchRow:
        start, max_tokens = sequence.computed_count, self._limits.max_num_batched_tokens
        tokens = tuple(sequence.tokens[start : start + max_tokens])
        is_last = start + len(tokens) == len(sequence.tokens)
        return BatchRow(sequence, tokens, start, tuple(sequence.blocks), is_sampled=is_last)

    def _schedule_decode(self) -> Batch | None:
        """Return a decode batch with one token for each running sequence that has a block for this token."""
        ready = [sequence for sequence in list(self.running) if self._ensure_room(sequence)]
        if not ready:
            return None
        rows = tuple(BatchRow(s, (s.tokens[-1],), s.computed_count, tuple(s.blocks), is_sampled=True) for s in ready)
        return Batch(BucketPhase.DECODE, rows, Bucket(len(rows), 1, self._decode_block_count(rows)))

    def _ensure_room(self, sequence: Sequence) -> bool:
        """Return whether the last token has a slot. If needed, allocate a block and preempt the youngest sequences."""
        if sequence not in self.running:
            return False
        if self._blocks_needed(len(sequence.tokens)) == len(sequence.blocks):
            return True
        # A lack of blocks never fails a request. The youngest sequence frees its blocks and waits. Later it is
        # recomputed, with its generated tokens as part of the prompt. The oldest sequence always finishes, because the
        # server accepts a request only if the cache can hold it alone.
        while self.blocks.free_count == 0:
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        sequence.blocks += self.blocks.allocate(1)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._free_blocks(sequence)
        sequence.computed_count = 0
        self.waiting.appendleft(sequence)

    def _free_blocks(self, sequence: Sequence) -> None:
        self.blocks.release(sequence.blocks)
        sequence.blocks = []

    def _decode_block_count(self, rows: tuple[BatchRow, ...]) -> int:
        """Return the number of KV blocks that a decode batch reads: a prefix of the cache if it is contiguous."""
        if self._limits.contiguous_paged_attention:
            return 1 + max(max(row.blocks) for row in rows)
        return sum(len(row.blocks) for row in rows)

    def _blocks_needed(self, tokens: int) -> int:
        return -(-tokens // self._limits.block_size)
