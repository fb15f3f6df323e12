"""Guided decoding on a card: the sampler runs only at batch sizes that warm-up has compiled.

In a step with a grammar, the plugin joins the logits of all decodes and prompts without padding, and samples them
together. Without this module, the sampler would be compiled for each number of requests in a step, and the requests
would wait.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any


class GuidedSampling:
    """A replacement for the sampling of one model runner. It pads the joined logits of a step with a grammar."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._sample: Callable[..., tuple[Any, Any]] = runner._run_sampling
        runner._run_sampling = self._run_sampling

    def _run_sampling(
        self,
        batch_changed: bool,
        logits_device: Any,
        request_ids: Sequence[str] | None = None,
        pad_to: int | None = None,
        logits_requests: Any = None,
    ) -> tuple[Any, Any]:
        rows = int(logits_device.shape[0])
        padded_size = self._padded_size(rows) if self._runner.use_structured_output else rows
        if padded_size == rows:
            return self._sample(batch_changed, logits_device, request_ids, pad_to, logits_requests)
        # Pad with rows of zeros. The tokens that are sampled from these rows are dropped.
        padded_logits = logits_device.new_zeros((padded_size, *logits_device.shape[1:]))
        padded_logits[:rows] = logits_device
        output, metadata = self._sample(batch_changed, padded_logits, request_ids, padded_size, logits_requests)
        return replace(output, sampled_token_ids=output.sampled_token_ids[:rows]), metadata

    def _padded_size(self, rows: int) -> int:
        """Return the smallest compiled batch size of the sampler that has enough rows; `rows` if there is none."""
        sizes = sorted({1, *(int(batch_size) for batch_size, *_ in self._runner.bucketing_manager.decode_buckets)})
        index = bisect_left(sizes, rows)
        return sizes[index] if index < len(sizes) else rows
