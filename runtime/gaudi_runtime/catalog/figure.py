"""Figure: a number with its source and confidence, so that no estimate looks like a measurement."""

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """The confidence of a figure, surest first.

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
        """The position in the order of confidence; 0 is the surest."""
        return list(Confidence).index(self)


@dataclass(frozen=True)
class Figure:
    """A value with its source in words and its confidence; the owner of the figure defines its unit.

    `low` and `high` are the values of other sources if they differ.
    """

    value: float
    source: str
    confidence: Confidence
    low: float | None = None
    high: float | None = None

    @property
    def least(self) -> float:
        """The lowest value of any source."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """The highest value of any source."""
        return self.value if self.high is None else self.high


def weakest(*figures: Figure) -> Confidence:
    """Return the lowest confidence of these figures, which is the confidence of a figure made of them."""
    return max((figure.confidence for figure in figures), key=lambda confidence: confidence.rank)
