"""Dummy batches that run a bucket of the plan with the plugin's model runner.

The plugin itself creates a dummy batch for most buckets. This module creates the other batches: for a bucket that is
longer than every sequence, for a batch size without a prompt bucket, and for a chunk of a prompt. speculative.py
creates the batches for speculative decoding.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.capabilities import PIECES, find_degradations
from gaudi_runtime.engines.vllm.workers.speculative import decode_forwards

Forward = Callable[[], None]
Shape = tuple[int, ...]
"""Batch size, query tokens, context blocks."""


class DummyBatches:
    """The dummy batches that a worker runs with the plugin's model runner."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def batches_for_bucket(self, phase: str, shape: Shape, seeds: Sequence[Shape]) -> list[Forward]:
        """Return the dummy batches for every way to run this bucket; none if no batch can be padded to it.

        `seeds` are the decode buckets that are used to pad sequences with drafts. Without speculative decoding, `seeds`
        is empty.
        """
        if phase == BucketPhase.PROMPT:
            prompt = self._prompt_batch(shape)
            return [] if prompt is None else [prompt]
        if seeds:
            return decode_forwards(self._runner, shape, seeds)
        return [partial(self._runner._prepare_dummy_scenario, None, shape)]

    def _prompt_batch(self, shape: Shape) -> Forward | None:
        batch_size, query_len, blocks = shape
        block, longest = int(self._runner.block_size), int(self._runner.max_model_len)
        if query_len + blocks * block <= longest or not self._can_build_batches():
            return partial(self._runner._prepare_dummy_scenario, shape, None)
        # The plugin would shorten the context of this shape and therefore run another bucket.
        lengths = smallest_prompt(shape, self._prompt_buckets(), block, longest)
        return None if lengths is None else partial(self._run_prompts, batch_size, *lengths)

    def run_missing_sizes(self) -> None:
        """Run each number of prompts that no prompt bucket has, because the plugin does not pad the logits' rows."""
        prompt_buckets = self._prompt_buckets()
        batch_sizes = {size for size, _, _ in prompt_buckets}
        if not self._can_build_batches():
            return
        for batch_size in sorted(set(range(1, max(batch_sizes, default=0))) - batch_sizes):
            _, query_len, _ = min(bucket for bucket in prompt_buckets if bucket[0] > batch_size)
            self._run_prompts(batch_size, query_len, 0)

    def run_prompt_chunk(self, *, uses_drafts: bool) -> None:
        """Run a chunk that is not the last of its prompt. It has no logits, so torch.compile compiles it separately.

        `uses_drafts` is True with speculative decoding.
        """
        prompt_buckets = self._prompt_buckets()
        if not prompt_buckets or not self._can_build_batches():
            return
        _, query, blocks = min(prompt_buckets)
        computed = blocks * int(self._runner.block_size)
        requests: list[Any] = []
        scheduled_tokens: dict[str, int] = {}
        if computed + query < int(self._runner.max_model_len):
            # Leave one token of the prompt unscheduled. `_add_dummy_request` with `is_prompt=True` would not allow
            # this, because the plugin then schedules all tokens.
            self._runner._add_dummy_request(requests, scheduled_tokens, computed, computed + query + 1, query, False)
            if uses_drafts:
                # Add a request that samples a token, because the plugin's drafting fails in a step without a sampled
                # token.
                self._runner._add_dummy_request(requests, scheduled_tokens, computed, computed + query, query, True)
            self._runner._execute_dummy_scenario(requests, scheduled_tokens)

    def remove_requests(self) -> None:
        """Remove the requests of a failed batch. Otherwise the plugin would add them to the first real batch."""
        self._runner.requests, self._runner.scheduler_output = {}, None
        batch = getattr(self._runner, "input_batch", None)
        if batch is not None:
            # Use the same order as the plugin between two batches: first remove rows, then move the other rows up.
            batch.condense(sorted(map(batch.remove_request, tuple(batch.req_id_to_index)), reverse=True))

    def _run_prompts(self, prompt_count: int, query: int, computed: int) -> None:
        """Run `prompt_count` prompts, each with `query` new tokens after `computed` cached tokens."""
        requests: list[Any] = []
        scheduled_tokens: dict[str, int] = {}
        for _ in range(prompt_count):
            self._runner._add_dummy_request(requests, scheduled_tokens, computed, computed + query, query, True)
        self._runner._execute_dummy_scenario(requests, scheduled_tokens)

    def _prompt_buckets(self) -> Sequence[Shape]:
        buckets: Sequence[Shape] = self._runner.bucketing_manager.prompt_buckets
        return buckets

    def _can_build_batches(self) -> bool:
        return not find_degradations(self._runner, PIECES)


def smallest_prompt(shape: Shape, buckets: Sequence[Shape], block: int, longest: int) -> tuple[int, int] | None:
    """Return the new and the cached tokens of the smallest prompts that are padded to the bucket `shape`.

    `buckets` contains all prompt buckets in plan order. `block` is the block size in tokens, and a prompt has at most
    `longest` tokens. Return None if every prompt is padded to an earlier bucket (docs/internals/planning.md, Finding a
    bucket).
    """
    batch_size, query_len, blocks = shape
    earlier_buckets = [bucket for bucket in buckets if tuple(bucket) < tuple(shape) and bucket[0] >= batch_size]
    # The query is one token longer than the query of some earlier buckets. The context is one block larger than the
    # context of all other earlier buckets.
    for shorter_query in sorted({0, *(bucket[1] for bucket in earlier_buckets if bucket[1] < query_len)}):
        covered_blocks = max((bucket[2] for bucket in earlier_buckets if bucket[1] > shorter_query), default=-1)
        computed = covered_blocks * block + 1 if covered_blocks >= 0 else 0
        if covered_blocks < blocks and shorter_query + 1 + computed <= longest:
            return shorter_query + 1, computed
    return None
