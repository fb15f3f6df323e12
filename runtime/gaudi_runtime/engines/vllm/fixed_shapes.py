"""Fixed-shape compilation of vLLM's model on a CPU: one graph for each number of tokens, and steps padded to them.

The model's forward knows a step only as its number of tokens; attention is one opaque operation whose own shapes are
not compiled. So a bucket needs the graph of batch size x query tokens, and a step takes the smallest graph that holds
it (docs/vllm.md, On a CPU).
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

MOST_GRAPHS = 8192
"""Above any plan: Dynamo's own limit would make the model fail at its eighth shape."""


class TokenCounts:
    """The numbers of tokens that have a graph."""

    def __init__(self) -> None:
        self._known: list[int] = []
        self._wanted: int | None = None

    def padded(self, tokens: int) -> int:
        """What a step of `tokens` tokens is padded to; itself where no graph holds it, which makes one."""
        if self._wanted is not None:
            return max(tokens, self._wanted)
        at = bisect_left(self._known, tokens)
        return self._known[at] if at < len(self._known) else tokens

    def add(self, tokens: int) -> None:
        """There is a graph of so many tokens now."""
        at = bisect_left(self._known, tokens)
        if at == len(self._known) or self._known[at] != tokens:
            insort(self._known, tokens)

    @contextmanager
    def exactly(self, tokens: int) -> Iterator[None]:
        """Pad the steps inside the block to exactly so many tokens."""
        self._wanted = tokens
        try:
            yield
        finally:
            self._wanted = None


class FixedShapes:
    """Compiles one worker's model anew for every number of tokens. Create it once the model is loaded."""

    def __init__(self, runner: Any) -> None:
        import torch._dynamo as dynamo
        from torch._dynamo.utils import counters

        self.counts = TokenCounts()
        self._stats = counters["stats"]
        self._decide = runner._determine_batch_execution_and_padding
        dynamo.config.recompile_limit = MOST_GRAPHS
        dynamo.config.accumulated_recompile_limit = MOST_GRAPHS
        runner._determine_batch_execution_and_padding = self._padded
        runner.model.compile(fullgraph=True, dynamic=False, backend="inductor")

    def compiles(self) -> int:
        """Graphs that Dynamo has made in this process."""
        return int(self._stats["unique_graphs"])

    def _padded(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        mode, batch, *rest = self._decide(*args, **kwargs)
        return mode, replace(batch, num_tokens=self.counts.padded(batch.num_tokens)), *rest
