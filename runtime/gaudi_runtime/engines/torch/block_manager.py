"""The allocator of KV blocks. This module does not import torch."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush


class BlockManager:
    """The free and the used KV blocks of one cache."""

    def __init__(self, kv_blocks: int) -> None:
        # The last block is reserved for padding, so no sequence can use it.
        self.total_count = kv_blocks - 1
        self._free_blocks = list(range(self.total_count))
        self._used_blocks: set[int] = set()
        # The heap returns the lowest free id first, which keeps the used range of the cache short.
        heapify(self._free_blocks)

    @property
    def free_count(self) -> int:
        """The number of free blocks."""
        return len(self._free_blocks)

    @property
    def used_count(self) -> int:
        """The number of blocks that sequences use."""
        return len(self._used_blocks)

    @property
    def highest_used_block(self) -> int:
        """The largest block id in use; -1 if no block is in use."""
        return max(self._used_blocks, default=-1)

    def allocate(self, count: int) -> list[int]:
        """Allocate `count` blocks. Raises MemoryError if fewer blocks are free. Callers check `free_count` first."""
        if count > len(self._free_blocks):
            raise MemoryError(f"{count} KV blocks are needed, but {len(self._free_blocks)} are free")
        blocks = [heappop(self._free_blocks) for _ in range(count)]
        self._used_blocks.update(blocks)
        return blocks

    def release(self, blocks: Iterable[int]) -> None:
        """Free these blocks. Raises ValueError for a block that is not in use."""
        for block in blocks:
            if block not in self._used_blocks:
                raise ValueError(f"KV block {block} is released but not in use")
            self._used_blocks.remove(block)
            heappush(self._free_blocks, block)

    def compact(self, threshold: int, max_moves: int) -> dict[int, int]:
        """Move blocks from the highest ids to the lowest free ids, if the gap in the used range exceeds `threshold`.

        Returns at most `max_moves` pairs: old id -> new id.
        """
        moves: dict[int, int] = {}
        if self.highest_used_block - threshold <= self.used_count:
            return moves
        for used_block in sorted(self._used_blocks, reverse=True)[:max_moves]:
            if self._free_blocks[0] > used_block:
                break
            moves[used_block] = self.allocate(1)[0]
            self.release([used_block])
        return moves
