"""Dummy batches that run a bucket of the plan through the plugin's model runner.

The plugin itself makes a dummy batch for most buckets. This module makes the others: for a bucket longer than every
sequence, for a batch size that no prompt bucket has, and for a chunk of a prompt. speculative.py makes those of
speculative decoding.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.capabilities import PIECES, losses
from gaudi_runtime.engines.vllm.workers.speculative import decode_forwards

Forward = Callable[[], None]
Shape = tuple[int, ...]
"""Batch size, query tokens, context blocks."""


class DummyBatches:
    """The dummy batches that a worker runs through the plugin's model runner."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def of_bucket(self, phase: str, shape: Shape, seeds: Sequence[Shape]) -> list[Forward]:
        """Return the batches that run this bucket in every way; none if no batch can be padded to it.

        `seeds` are the decode buckets by which sequences with drafts are padded; empty without speculative decoding.
        """
        if phase == BucketPhase.PROMPT:
            prompt = self._of_prompt_bucket(shape)
            return [] if prompt is None else [prompt]
        if seeds:
            return decode_forwards(self._runner, shape, seeds)
        return [partial(self._runner._prepare_dummy_scenario, None, shape)]

    def _of_prompt_bucket(self, shape: Shape) -> Forward | None:
        size, query, blocks = shape
        block, longest = int(self._runner.block_size), int(self._runner.max_model_len)
        if query + blocks * block <= longest or not self._pieces_are_known():
            return partial(self._runner._prepare_dummy_scenario, shape, None)
        # The plugin would shorten its context and so run another bucket.
        found = smallest_prompt(shape, self._prompt_buckets(), block, longest)
        return None if found is None else partial(self._run_prompts, size, *found)

    def run_missing_sizes(self) -> None:
        """Run each number of prompts that no prompt bucket has, because the plugin does not pad rows of logits."""
        prompts = self._prompt_buckets()
        sizes = {size for size, _, _ in prompts}
        if not self._pieces_are_known():
            return
        for count in sorted(set(range(1, max(sizes, default=0))) - sizes):
            _, query, _ = min(each for each in prompts if each[0] > count)
            self._run_prompts(count, query, 0)

    def run_piece(self, *, drafts: bool) -> None:
        """Run a chunk of a prompt that is not its last. It has no logits, so torch.compile makes separate code.

        `drafts` is whether the model decodes speculatively.
        """
        prompts = self._prompt_buckets()
        if not prompts or not self._pieces_are_known():
            return
        _, query, blocks = min(prompts)
        computed = blocks * int(self._runner.block_size)
        requests: list[Any] = []
        scheduled: dict[str, int] = {}
        if computed + query < int(self._runner.max_model_len):
            # One token of the prompt is left. Not added as a prompt, because the plugin schedules all
            # tokens of a prompt.
            self._runner._add_dummy_request(requests, scheduled, computed, computed + query + 1, query, False)
            if drafts:
                # A step without any sampled token would fail in the plugin's drafting.
                self._runner._add_dummy_request(requests, scheduled, computed, computed + query, query, True)
            self._runner._execute_dummy_scenario(requests, scheduled)

    def forget(self) -> None:
        """Remove the requests of a failed batch; the plugin would leave them in the batch of the first real request."""
        self._runner.requests, self._runner.scheduler_output = {}, None
        batch = getattr(self._runner, "input_batch", None)
        if batch is not None:
            # In the order of the plugin between two batches: first remove rows, then move the others up.
            batch.condense(sorted(map(batch.remove_request, tuple(batch.req_id_to_index)), reverse=True))

    def _run_prompts(self, size: int, query: int, computed: int) -> None:
        """Run `size` prompts with `query` new tokens each, after `computed` tokens that are in the cache."""
        requests: list[Any] = []
        scheduled: dict[str, int] = {}
        for _ in range(size):
            self._runner._add_dummy_request(requests, scheduled, computed, computed + query, query, True)
        self._runner._execute_dummy_scenario(requests, scheduled)

    def _prompt_buckets(self) -> Sequence[Shape]:
        buckets: Sequence[Shape] = self._runner.bucketing_manager.prompt_buckets
        return buckets

    def _pieces_are_known(self) -> bool:
        return not losses(self._runner, PIECES)


def smallest_prompt(shape: Shape, known: Sequence[Shape], block: int, longest: int) -> tuple[int, int] | None:
    """Return the new and computed tokens of the smallest dummy prompts whose batch is padded to the bucket `shape`.

    `known` has all prompt buckets in plan order, `block` is in tokens, and a prompt has at most `longest` tokens.
    Return None if every prompt is padded to an earlier bucket (docs/internals/bucketing.md, Finding a bucket).
    """
    size, query, blocks = shape
    earlier = [each for each in known if tuple(each) < tuple(shape) and each[0] >= size]
    # One token more than the queries of some earlier buckets, and one block more than the contexts of all others.
    for shorter in sorted({0, *(each[1] for each in earlier if each[1] < query)}):
        held = max((each[2] for each in earlier if each[1] > shorter), default=-1)
        computed = held * block + 1 if held >= 0 else 0
        if held < blocks and shorter + 1 + computed <= longest:
            return shorter + 1, computed
    return None
