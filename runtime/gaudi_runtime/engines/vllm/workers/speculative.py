"""Speculative decoding on a card: all ways to run a decode bucket, and the same number of drafts per sequence.

The plugin warms up only decode batches with one token per sequence. A step that verifies drafts has the same shape, but
other kinds of numbers, and torch.compile compiles separate code for these. The check of the drafts follows the step
(planning/speculative.py). Therefore each bucket is run in every way in which requests can use it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any

Forward = Callable[[], None]
Shape = tuple[int, ...]


def draft_tokens(runner: Any) -> int:
    """Return the maximum number of draft tokens per sequence and step; 0 without speculative decoding."""
    config = runner.speculative_config
    return 0 if config is None else int(config.num_speculative_tokens)


def decode_forwards(runner: Any, shape: Shape, seeds: Iterable[Shape]) -> list[Forward]:
    """Return the dummy forwards for every way to run the decode bucket `shape`; none if no batch can use it."""
    rows, _, blocks = shape
    sizes = {size for size, _, _ in seeds}
    forwards: list[Forward] = []
    if rows <= max(sizes) and _is_padded_to(runner, shape, rows, blocks):
        forwards.append(partial(runner._prepare_dummy_scenario, None, shape))
    sequence_tokens = 1 + draft_tokens(runner)
    if rows % sequence_tokens == 0 and rows // sequence_tokens in sizes:
        forwards += _verification_forwards(runner, shape, rows // sequence_tokens, sequence_tokens)
    return forwards


NO_MATCH = 0
"""The draft where the text has no match: it is compared like any other token, and kept only if it is right."""


def equalize_drafts(runner: Any, drafts: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the same number of drafts for each sequence; no drafts if a sequence is close to the model's length."""
    # If a sequence has fewer drafts than the others, the plugin fills its rows with position 0, which overwrites the
    # first token of the sequence in the cache. The plugin may also draft token -1, which has no embedding.
    draft_count = draft_tokens(runner)
    batch, longest = runner.input_batch, int(runner.max_model_len)
    free_tokens = min((longest - int(count) for count in batch.num_tokens_no_spec[: batch.num_reqs]), default=0)
    if free_tokens < 1 + draft_count:
        return [[] for _ in drafts]
    return [
        [NO_MATCH if token < 0 else int(token) for token in (*sequence_drafts, *[-1] * draft_count)][:draft_count]
        for sequence_drafts in drafts
    ]


def _verification_forwards(runner: Any, shape: Shape, size: int, tokens: int) -> Iterator[Forward]:
    """Yield a step of `size` sequences with this many tokens each, if the step is padded to `shape`."""
    rows, _, blocks = shape
    block, longest = int(runner.block_size), int(runner.max_model_len)
    # Attention reads the blocks of a sequence once for each token. Therefore use as many blocks as fit, and distribute
    # the blocks over the sequences.
    total_blocks = min(blocks // tokens, size * ceil((longest - tokens + 1) / block))
    block_counts = [total_blocks // size + (index < total_blocks % size) for index in range(size)]
    bucket = runner.bucketing_manager.find_decode_bucket(size, total_blocks, True)
    if min(block_counts) and bucket[0] == size and _is_padded_to(runner, shape, rows, total_blocks * tokens):
        # Fill the last block of each sequence as far as the tokens of this step allow.
        computed = [max(1, (count - 1) * block, min(count * block, longest) - tokens) for count in block_counts]
        yield partial(_run_verification, runner, computed, tokens)


def _is_padded_to(runner: Any, shape: Shape, rows: int, blocks: int) -> bool:
    return tuple(runner.bucketing_manager.find_decode_bucket(rows, blocks)) == shape


def _run_verification(runner: Any, computed_tokens: Sequence[int], tokens: int) -> None:
    requests: list[Any] = []
    scheduled_tokens: dict[str, int] = {}
    for count in computed_tokens:
        runner._add_dummy_request(requests, scheduled_tokens, count, count, tokens, False)
    with _add_drafts(runner, dict.fromkeys(scheduled_tokens, [0] * (tokens - 1))):
        runner._execute_dummy_scenario(requests, scheduled_tokens)


@contextmanager
def _add_drafts(runner: Any, drafts: Mapping[str, list[int]]) -> Iterator[None]:
    """Add these drafts to the plugin's dummy steps in the block. By default, the steps contain no drafts."""
    execute = runner.execute_model

    def execute_with_drafts(step: Any, *args: Any, **kwargs: Any) -> Any:
        # Add drafts only to a step with tokens. The step that ends the requests has no tokens.
        if step.num_scheduled_tokens:
            step.scheduled_spec_decode_tokens.update(drafts)
        return execute(step, *args, **kwargs)

    runner.execute_model = execute_with_drafts
    try:
        yield
    finally:
        runner.execute_model = execute
