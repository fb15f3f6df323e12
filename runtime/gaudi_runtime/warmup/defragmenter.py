"""What defragmenter warm-up runs (docs/warmup.md, Defragmenter)."""

SWAP_SIZES = (8, 16, 32, 64, 128, 256, 512)
"""Pairs of a swap after padding, ascending; a step swaps at most the largest."""

MIN_BLOCKS = 2
"""With fewer KV blocks there is no pair to swap, and warm-up of the defragmenter is skipped with a warning."""


def warmup_swaps() -> tuple[int, ...]:
    """Padded sizes to swap the blocks (1, 0) at, in order.

    Their number is even, so the cache ends as it began: the first size comes again where needed.
    """
    return SWAP_SIZES if len(SWAP_SIZES) % 2 == 0 else (*SWAP_SIZES, SWAP_SIZES[0])
