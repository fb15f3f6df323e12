"""HeatMap: batch sizes across, lengths down, and what stands in each cell."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Place = tuple[int, int]
"""Batch size and length of a cell: query tokens (prompt) or KV blocks of the batch (decode)."""


class Cell(NamedTuple):
    """What a cell says and how hot it is, from 0 to 1; None is no bucket where requests can come."""

    text: str
    heat: float | None


MISS = Cell("none", None)


@dataclass(frozen=True)
class HeatMap:
    """A picture of one phase. `cell` answers None for a place where no request can be, or nothing is to count; it is
    asked only for what is drawn, because a plan may have millions of places.

    `caption` says what the heat means and where its figures come from.
    """

    title: str
    caption: str
    batches: Sequence[int]
    lengths: Sequence[int]
    cell: Callable[[Place], Cell | None]

    def thinned(self, columns: int, rows: int) -> "HeatMap":
        """At most so many batch sizes and lengths, evenly chosen with the largest among them; the title says so."""
        batches, lengths = _thin(self.batches, columns), _thin(self.lengths, rows)
        hidden = [
            f"{len(shown)} of {len(every)} {what}"
            for what, shown, every in (("batch sizes", batches, self.batches), ("lengths", lengths, self.lengths))
            if len(shown) < len(every)
        ]
        title = f"{self.title} (shown: {', '.join(hidden)})" if hidden else self.title
        return replace(self, title=title, batches=batches, lengths=lengths)

    def rows(self) -> Iterable[tuple[int, list[Cell | None]]]:
        """Every length with its cells, one per batch size."""
        for length in self.lengths:
            yield length, [self.cell((batch, length)) for batch in self.batches]


def _thin(values: Sequence[int], most: int) -> Sequence[int]:
    if len(values) <= most:
        return values
    step = len(values) / most
    return [values[len(values) - 1 - int(step * back)] for back in reversed(range(most))]
