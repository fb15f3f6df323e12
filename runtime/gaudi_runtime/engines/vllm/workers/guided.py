"""Guided decoding on a card: steps with a grammar run only operations that warm-up has compiled.

In a step with a grammar, the plugin joins the logits of all decodes and prompts without padding, applies the grammars,
and samples the rows together. Without this module, the sampler would be compiled for each number of requests in a step,
and the requests would wait.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

BITS = 32
"""The number of tokens in an element of a grammar's mask."""


class GuidedSampling:
    """A replacement for the sampling of one model runner. It pads the joined logits of a step with a grammar."""

    def __init__(self, runner: Any, mark_step: Callable[[], None]) -> None:
        """Replace the sampling. `mark_step` ends a sequence of operations that share a recipe."""
        self._runner, self._mark_step = runner, mark_step
        self._sample: Callable[..., tuple[Any, Any]] = runner._run_sampling
        self._warm_up_sampler: Callable[[], None] = runner.warmup_sampler
        self._warming = False
        self._example_logits: Any = None
        runner._run_sampling, runner.warmup_sampler = self._run_sampling, self.warm_up

    def warm_up(self) -> None:
        """Run the sampler warm-up. Then apply a mask to each number of rows that a step may have, and pad the rows."""
        import numpy

        self._warming = True
        self._warm_up_sampler()
        runner, logits = self._runner, self._example_logits
        self._warming, self._example_logits = False, None
        if logits is None:
            return
        no_mask = numpy.zeros((0, -(-logits.shape[1] // BITS)), dtype=numpy.int32)
        no_grammars = SimpleNamespace(structured_output_request_ids=[], grammar_bitmask=no_mask)
        no_drafts = SimpleNamespace(scheduled_spec_decode_tokens={})
        for rows in range(1, self._sizes()[-1] + 1):
            joined_logits = logits.new_zeros((rows, logits.shape[1]))
            runner.apply_grammar_bitmask(no_drafts, no_grammars, joined_logits)
            _pad_rows(joined_logits, self._padded_size(rows))
            self._mark_step()

    def _run_sampling(
        self,
        batch_changed: bool,
        logits_device: Any,
        request_ids: Sequence[str] | None = None,
        pad_to: int | None = None,
        logits_requests: Any = None,
    ) -> tuple[Any, Any]:
        if self._warming:
            self._example_logits = logits_device[:1]
        rows = int(logits_device.shape[0])
        padded_size = self._padded_size(rows) if self._runner.use_structured_output else rows
        if padded_size == rows:
            return self._sample(batch_changed, logits_device, request_ids, pad_to, logits_requests)
        padded_logits = _pad_rows(logits_device, padded_size)
        output, metadata = self._sample(batch_changed, padded_logits, request_ids, padded_size, logits_requests)
        return replace(output, sampled_token_ids=output.sampled_token_ids[:rows]), metadata

    def _sizes(self) -> list[int]:
        """Return the batch sizes for which the sampler is compiled, in ascending order."""
        return sorted({1, *(int(batch_size) for batch_size, *_ in self._runner.bucketing_manager.decode_buckets)})

    def _padded_size(self, rows: int) -> int:
        """Return the smallest compiled batch size of the sampler that has enough rows; `rows` if there is none."""
        sizes = self._sizes()
        index = bisect_left(sizes, rows)
        return sizes[index] if index < len(sizes) else rows


def _pad_rows(logits: Any, size: int) -> Any:
    """Return logits with `size` rows. The tokens that are sampled from the additional rows are dropped."""
    import torch

    added_rows = size - int(logits.shape[0])
    return torch.nn.functional.pad(logits, (0, 0, 0, added_rows)) if added_rows else logits
