"""Figure: a number that says where it comes from and how sure it is, so that no estimate looks like a measurement."""

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """How sure a figure is, surest first."""

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
    """A value in the unit that the field's name or docstring gives, its source in words, and how sure it is."""

    value: float
    source: str
    confidence: Confidence


def weakest(*figures: Figure) -> Confidence:
    """The confidence of whatever is made of all these: that of the least sure one."""
    return max((figure.confidence for figure in figures), key=lambda confidence: confidence.rank)
