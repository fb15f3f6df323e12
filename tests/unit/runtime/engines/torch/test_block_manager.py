"""Allocation and release of KV cache blocks by the torch engine."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gaudi_runtime.engines.torch.block_manager import BlockManager

BLOCKS = 12


class Ownership(RuleBasedStateMachine):
    """A state machine in which sequences arrive, grow, end and are moved. Each block has at most one owner."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = BlockManager(BLOCKS)
        self.owned: list[list[int]] = []

    @rule(count=st.integers(0, BLOCKS))
    def allocate(self, count: int) -> None:
        if count <= self.manager.free_count:
            self.owned.append(self.manager.allocate(count))

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.owned) - 1))
        self.manager.release(self.owned.pop(index))

    @rule(threshold=st.integers(0, 4), max_moves=st.integers(1, 4))
    def compact(self, threshold: int, max_moves: int) -> None:
        moves = self.manager.compact(threshold, max_moves)
        assert not set(moves) & set(moves.values())
        assert all(new < old for old, new in moves.items())
        self.owned = [[moves.get(block, block) for block in blocks] for blocks in self.owned]

    @invariant()
    def every_block_has_one_owner_or_none(self) -> None:
        owned = [block for blocks in self.owned for block in blocks]
        assert len(owned) == len(set(owned)) == self.manager.used_count
        assert self.manager.used_count + self.manager.free_count == self.manager.total_count == BLOCKS - 1
        assert BLOCKS - 1 not in owned
        assert self.manager.highest_used_block == max(owned, default=-1)


TestOwnership = Ownership.TestCase


def test_too_many_blocks_are_refused() -> None:
    with pytest.raises(MemoryError, match="4 KV blocks are needed, but 3 are free"):
        BlockManager(4).allocate(4)


def test_second_release_is_refused() -> None:
    manager = BlockManager(4)
    blocks = manager.allocate(2)
    manager.release(blocks)
    with pytest.raises(ValueError, match="KV block 0 is released but not in use"):
        manager.release(blocks)


def test_lowest_ids_are_allocated_first() -> None:
    manager = BlockManager(8)
    first, second = manager.allocate(2), manager.allocate(2)
    manager.release(first)
    assert (first, second, manager.allocate(3)) == ([0, 1], [2, 3], [0, 1, 4])


def test_compact_below_the_threshold_moves_no_block() -> None:
    manager = BlockManager(8)
    low, _ = manager.allocate(3), manager.allocate(1)
    manager.release(low)
    assert manager.compact(threshold=2, max_moves=8) == {}
    assert manager.compact(threshold=1, max_moves=8) == {3: 0}
