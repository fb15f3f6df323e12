"""The blocks of sliding windows in a decode batch, for a model in which only some layers have a window.

The plugin reads the last blocks of a sequence as a whole. So it leaves out the first tokens of a window, or, for
gpt-oss, reads tokens in front of the window. It also looks up a bucket for the number of these blocks, so a graph would
have a third dimension that no plan has. Here the window is exact, and its number of blocks depends only on the padded
batch.
"""

import math
from collections.abc import Sequence
from typing import Any

from gaudi_runtime.engines.vllm.workers.capabilities import has_windows, window_degradations


def window_blocks(window: int, block_size: int) -> int:
    """Return the most blocks that a window of `window` tokens touches."""
    return 1 + math.ceil((window - 1) / block_size)


def correct_sliding_windows(runner: Any) -> None:
    """Make the windows of decode batches exact, unless the plugin lacks names that this needs."""
    if has_windows(runner) and not window_degradations(runner):
        SlidingWindows(runner, runner.model.metadata_processor, int(runner.interleaved_sliding_window))


class SlidingWindows:
    """The block lists and the masks of windows. They replace those of the plugin's model runner."""

    def __init__(self, runner: Any, masks: Any, window: int) -> None:
        self._runner, self._window = runner, window
        self._block_size = int(getattr(runner, "attn_block_size", None) or runner.block_size)
        self._tables: Sequence[Sequence[int]] | None = None
        self._num_blocks = 0
        self._plugin_buffers = runner.get_habana_paged_attn_buffers
        runner.get_habana_paged_attn_buffers = self._make_buffers
        self._plugin_mapping, masks._set_block_mapping = masks._set_block_mapping, self._set_block_mapping

    def _make_buffers(self, block_tables: Any, slot_mapping: Any, batch_size: int, block_size: Any = None) -> Any:
        """Return block numbers, rows and used tokens of all blocks of a batch; in the next call those of its windows.

        For windows, the used tokens are pairs: the first token of the block inside the window, and the end.
        """
        if self._tables is None:
            buffers = self._plugin_buffers(block_tables, slot_mapping, batch_size, block_size=block_size)
            self._tables, self._num_blocks = block_tables, int(buffers[0].numel())
            return buffers
        tables, self._tables = self._tables, None
        return self._make_window_buffers(tables, slot_mapping, batch_size)

    def _make_window_buffers(self, tables: Sequence[Sequence[int]], slot_mapping: Any, batch_size: int) -> Any:
        import torch

        size, blocks, rows, bounds = self._block_size, list[int](), list[int](), list[tuple[int, int]]()
        for row, (table, slots) in enumerate(zip(tables, slot_mapping, strict=False)):
            if not table:
                continue
            used = slots[0] % size + 1
            length = (len(table) - 1) * size + used
            first, start = divmod(max(0, length - self._window), size)
            kept = table[first:]
            blocks += kept
            rows += [row] * len(kept)
            bounds += [(0, size)] * (len(kept) - 1) + [(0, used)]
            bounds[-len(kept)] = start, bounds[-len(kept)][1]
        padding = min(self._num_blocks, batch_size * window_blocks(self._window, size)) - len(blocks)
        return (
            torch.tensor([*blocks, *[self._runner._PAD_BLOCK_ID] * padding], dtype=torch.long, device="cpu"),
            torch.tensor([*rows, *[-1] * padding], dtype=torch.long, device="cpu"),
            torch.tensor([*bounds, *[(0, 1)] * padding], dtype=torch.int32, device="cpu"),
        )

    def _set_block_mapping(
        self, metadata: Any, batch_size: int, device: Any, dtype: Any, is_window_block: bool = False, **options: Any
    ) -> Any:
        if not is_window_block:
            return self._plugin_mapping(metadata, batch_size, device, dtype, **options)
        import torch
        from vllm_gaudi.v1.worker.hpu_model_runner import custom_tuple_replace

        bounds, kind = metadata.window_block_usage, "TrimmedAttentionMetadata"
        metadata = custom_tuple_replace(metadata, kind, window_block_usage=bounds[:, 1])
        metadata = self._plugin_mapping(metadata, batch_size, device, dtype, True)
        in_front = torch.arange(0, self._block_size, device=device, dtype=torch.int32) < bounds[:, :1]
        bias = metadata.window_attn_bias.masked_fill(in_front, -math.inf)
        return custom_tuple_replace(metadata, kind, window_attn_bias=bias)
