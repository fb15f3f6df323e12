"""Figure: a number with its source and confidence, so that no estimate looks like a measurement."""

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """The confidence of a figure, highest first.

    `exact` follows from the inputs alone. `measured` was logged by a real card with this model. `published` is from a
    data sheet. `calculated` is from a formula. `scaled` was measured with another model. `assumed` has no source.
    """

    EXACT = "exact"
    MEASURED = "measured"
    PUBLISHED = "published"
    CALCULATED = "calculated"
    SCALED = "scaled"
    ASSUMED = "assumed"

    @property
    def rank(self) -> int:
        """The position in the order of confidence. 0 is the highest confidence."""
        return list(Confidence).index(self)


@dataclass(frozen=True)
class Figure:
    """A value with its confidence and a description of its source. The field that contains the figure defines the unit.

    If other sources have different values, `low` and `high` are the lowest and the highest of these values.
    """

    value: float
    source: str
    confidence: Confidence
    low: float | None = None
    high: float | None = None

    @property
    def least(self) -> float:
        """The lowest value of all sources."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """The highest value of all sources."""
        return self.value if self.high is None else self.high


def lowest_confidence(*figures: Figure) -> Confidence:
    """Return the lowest confidence of these figures. A figure that is calculated from them has this confidence."""
    return max((figure.confidence for figure in figures), key=lambda confidence: confidence.rank)
