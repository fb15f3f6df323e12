"""Decides in HPU-graph mode whether a forward may use a graph.

The plugin captures a graph at the first forward of any shape: compiling would capture already, and serving a bucket
that was left without a graph would capture it then, in memory that the split does not have. The gate allows graphs only
to a shape whose turn it is to be captured, or that has one. The plugin checks a forward's shape before it asks.
"""

from collections.abc import Callable
from typing import Any

Shape = tuple[int, int, int]


class GraphGate:
    """Stands before the runner's own answer; shapes are (batch size, query tokens, KV blocks) as the plugin counts."""

    def __init__(self, runner: Any) -> None:
        self._check, self._ask = runner._check_config, runner._use_graphs
        self._shape: Shape | None = None
        self._capturing = False
        self._granted = False
        self._graphed: set[Shape | None] = set()
        runner._check_config, runner._use_graphs = self._check_config, self._use_graphs

    def capture(self, forward: Callable[[], None]) -> bool:
        """Run `forward` with graphs; False when the plugin would not use one, as for prompts above its own limit."""
        self._shape, self._capturing, self._granted = None, True, False
        try:
            forward()
        finally:
            self._capturing = False
        self._graphed.add(self._shape)
        return self._granted

    def _check_config(
        self, batch_size: int, seq_len: int, num_blocks: int, attn_metadata: object, warmup_mode: bool
    ) -> None:
        self._shape = (batch_size, seq_len, num_blocks)
        self._check(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)

    def _use_graphs(self, attn_metadata: object, batch_size: int) -> bool:
        allowed = self._capturing or self._shape in self._graphed
        self._granted = allowed and bool(self._ask(attn_metadata, batch_size))
        return self._granted
