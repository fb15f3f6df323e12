"""The blocks of sliding windows in a decode batch."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.engines.vllm.workers.sliding_windows import SlidingWindows, window_blocks

SIZE, PAD = 8, 0
lengths = st.lists(st.integers(1, 100), min_size=1, max_size=5)
windows = st.integers(1, 60)


def make_buffers(lengths: list[int], window: int, padded_rows: int, padded_blocks: int) -> Any:
    """Return the window buffers of a batch. Block k of row r has the number 1000 * (r + 1) + k."""

    def all_blocks(tables: Any, *_: Any, **__: Any) -> Any:
        return (SimpleNamespace(numel=lambda: padded_blocks), None, None)

    runner = SimpleNamespace(block_size=SIZE, _PAD_BLOCK_ID=PAD, get_habana_paged_attn_buffers=all_blocks)
    SlidingWindows(runner, SimpleNamespace(_set_block_mapping=None), window)
    tables = [[1000 * (row + 1) + block for block in range(-(-each // SIZE))] for row, each in enumerate(lengths)]
    slots = [[table[-1] * SIZE + (each - 1) % SIZE] for table, each in zip(tables, lengths, strict=True)]
    slots += [[PAD * SIZE]] * (padded_rows - len(lengths))
    runner.get_habana_paged_attn_buffers(tables, slots, padded_rows, block_size=SIZE)
    return runner.get_habana_paged_attn_buffers([table[-1:] for table in tables], slots, padded_rows, block_size=SIZE)


@given(lengths, windows)
def test_blocks_have_exactly_the_last_tokens_of_each_sequence(lengths: list[int], window: int) -> None:
    total = sum(-(-each // SIZE) for each in lengths)
    blocks, rows, bounds = make_buffers(lengths, window, len(lengths), total)
    found: dict[int, set[int]] = {row: set() for row in range(len(lengths))}
    for block, row, (start, end) in zip(blocks.tolist(), rows.tolist(), bounds.tolist(), strict=True):
        if row >= 0:
            found[row] |= {(block % 1000) * SIZE + token for token in range(start, end)}
    assert found == {row: set(range(max(0, each - window), each)) for row, each in enumerate(lengths)}


@given(lengths, windows, st.integers(0, 3), st.integers(0, 20))
def test_number_of_blocks_depends_only_on_the_padded_batch(
    lengths: list[int], window: int, more_rows: int, more_blocks: int
) -> None:
    rows, blocks = len(lengths) + more_rows, sum(-(-each // SIZE) for each in lengths) + more_blocks
    found = make_buffers(lengths, window, rows, blocks)
    assert [len(each) for each in found] == [min(blocks, rows * window_blocks(window, SIZE))] * 3


def test_no_block_in_front_of_the_window_is_kept() -> None:
    _, _, bounds = make_buffers([4 * SIZE], 2 * SIZE, 1, 4)
    assert bounds.tolist() == [[0, SIZE], [0, SIZE], [0, 1]]
