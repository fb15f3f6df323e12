"""The batches that the torch engine forms from waiting and running sequences, and preemption."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.engines.torch.block_manager import BlockManager
from gaudi_runtime.engines.torch.scheduler import Batch, Scheduler, Sequence

LIMITS = Limits(max_model_len=64, max_num_seqs=3, max_num_prefill_seqs=2, max_num_batched_tokens=16, block_size=4)
BLOCKS = 17
"""Sixteen usable blocks, just enough for one sequence of 64 tokens."""


def every_shape_is_warm(_: BucketPhase, __: Bucket) -> bool:
    return True


def new_scheduler(limits: Limits = LIMITS, blocks: int = BLOCKS) -> Scheduler:
    return Scheduler(limits, BlockManager(blocks), every_shape_is_warm)


def sequence(prompt: int, answer: int = 1) -> Sequence:
    return Sequence(tuple(range(prompt)), SamplingParams(max_tokens=answer), seed=0)


def finish(scheduler: Scheduler, batch: Batch) -> None:
    """Apply a forward as the engine does: sampling sequences get one token, and finished sequences are removed."""
    for work in batch.rows:
        work.sequence.computed_count = work.start + len(work.tokens)
        if work.is_sampled:
            work.sequence.tokens.append(7)
        if work.sequence.generated_count == work.sequence.sampling.max_tokens:
            scheduler.remove(work.sequence)


def run(scheduler: Scheduler) -> Iterator[Batch]:
    while batch := scheduler.next_batch():
        yield batch
        finish(scheduler, batch)


def check(batch: Batch, limits: Limits) -> None:
    """Check that the batch respects the limits and its shape, and that each row's blocks have slots for its tokens."""
    blocks = [block for work in batch.rows for block in work.blocks]
    assert len(blocks) == len(set(blocks))
    assert batch.shape.batch_size == len(batch.rows) <= limits.max_num_seqs
    assert batch.shape.query_len == max(len(work.tokens) for work in batch.rows)
    for work in batch.rows:
        assert (work.start + len(work.tokens)) <= len(work.blocks) * limits.block_size
        assert work.tokens == tuple(work.sequence.tokens[work.start : work.start + len(work.tokens)])
    if batch.phase is BucketPhase.PROMPT:
        assert batch.shape.batch_size <= limits.max_num_prefill_seqs
        assert batch.shape.batch_size * batch.shape.query_len <= limits.max_num_batched_tokens
    elif limits.contiguous_paged_attention:
        assert max(blocks) < batch.shape.num_blocks
    else:
        assert len(blocks) == batch.shape.num_blocks


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 24)), min_size=1, max_size=12),
    st.booleans(),
)
def test_all_sequences_finish_in_batches_within_the_limits(sizes: list[tuple[int, int]], contiguous: bool) -> None:
    limits = LIMITS.model_copy(update={"contiguous_paged_attention": contiguous})
    scheduler = new_scheduler(limits)
    sequences = [sequence(prompt, answer) for prompt, answer in sizes]
    for one in sequences:
        scheduler.add(one)
    for batch in run(scheduler):
        check(batch, limits)
        scheduler.compact(threshold=2, max_moves=4)
    assert [one.generated_count for one in sequences] == [answer for _, answer in sizes]
    assert scheduler.blocks.used_count == 0


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 24)), min_size=2, max_size=8),
    st.lists(st.integers(0, 7), max_size=20),
)
def test_cancelled_sequences_leave_no_block(sizes: list[tuple[int, int]], cancelled: list[int]) -> None:
    scheduler = new_scheduler()
    sequences = [sequence(prompt, answer) for prompt, answer in sizes]
    for one in sequences:
        scheduler.add(one)
    for step, _ in enumerate(run(scheduler)):
        if step < len(cancelled):
            scheduler.remove(sequences[cancelled[step] % len(sequences)])
    assert (scheduler.blocks.used_count, scheduler.running, list(scheduler.waiting)) == (0, [], [])


def test_prompts_share_a_batch_within_the_token_budget() -> None:
    scheduler = new_scheduler()
    for length in (8, 7, 3):
        scheduler.add(sequence(length))
    batches = [(batch.phase, tuple(batch.shape)) for batch in run(scheduler)]
    assert batches == [(BucketPhase.PROMPT, (2, 8, 0)), (BucketPhase.PROMPT, (1, 3, 0))]


def test_prompts_without_a_common_bucket_run_separately() -> None:
    scheduler = Scheduler(LIMITS, BlockManager(BLOCKS), lambda _, shape: shape.batch_size == 1)
    for length in (2, 2):
        scheduler.add(sequence(length))
    assert [batch.shape for batch in run(scheduler)] == [Bucket(1, 2, 0)] * 2


def test_long_prompt_is_split_into_batches_with_context() -> None:
    scheduler = new_scheduler()
    scheduler.add(sequence(35))
    batches = list(run(scheduler))
    assert [batch.shape for batch in batches] == [Bucket(1, 16, 0), Bucket(1, 16, 4), Bucket(1, 3, 8)]
    assert [batch.rows[0].is_sampled for batch in batches] == [False, False, True]


def test_youngest_sequence_is_preempted() -> None:
    scheduler = new_scheduler(blocks=7)
    old, young = sequence(8, answer=16), sequence(8, answer=16)
    scheduler.add(old)
    scheduler.add(young)
    preempted = [batch for batch in run(scheduler) if young in scheduler.waiting and young.generated_count]
    assert preempted
    assert all(work.sequence is old for batch in preempted for work in batch.rows)
    assert (old.generated_count, young.generated_count) == (16, 16)


def test_decode_shape_without_contiguous_attention_counts_used_blocks() -> None:
    scheduler = new_scheduler(LIMITS.model_copy(update={"contiguous_paged_attention": False}))
    scheduler.add(sequence(5, answer=2))
    scheduler.add(sequence(3, answer=2))
    assert [tuple(batch.shape) for batch in run(scheduler)] == [(2, 5, 0), (2, 1, 3)]


def test_largest_batch_reads_only_the_blocks_of_its_sequences() -> None:
    """The padding block has no lower number than the sequences' blocks, so the largest batch fits its bucket."""
    scheduler = new_scheduler(blocks=100)
    for _ in range(3):
        scheduler.add(sequence(16, answer=48))
    most = max(batch.shape.num_blocks for batch in run(scheduler))
    assert most == 3 * 64 // LIMITS.block_size
