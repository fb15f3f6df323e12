"""Figure: a number that says where it comes from and how sure it is, so that no estimate looks like a measurement."""

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """How sure a figure is, surest first.

    exact follows from the inputs alone; measured was logged by a real card with this model; published stands in a
    data sheet; calculated comes from a formula; scaled is measured with another model; assumed has no source.
    """

    EXACT = "exact"
    MEASURED = "measured"
    PUBLISHED = "published"
    CALCULATED = "calculated"
    SCALED = "scaled"
    ASSUMED = "assumed"

    @property
    def rank(self) -> int:
        """0 for the surest."""
        return list(Confidence).index(self)


@dataclass(frozen=True)
class Figure:
    """A value in the unit that its holder names, its source in words, and how sure it is.

    `low` and `high` are what other sources say, where they differ.
    """

    value: float
    source: str
    confidence: Confidence
    low: float | None = None
    high: float | None = None

    @property
    def least(self) -> float:
        """The lowest value that any source gives."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """The highest value that any source gives."""
        return self.value if self.high is None else self.high


def weakest(*figures: Figure) -> Confidence:
    """The confidence of whatever is made of all these: that of the least sure one."""
    return max((figure.confidence for figure in figures), key=lambda confidence: confidence.rank)
