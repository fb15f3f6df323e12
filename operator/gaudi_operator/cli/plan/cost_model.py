"""The choices of --cost; apart from what computes them, so that other commands do not pay for it."""

from enum import StrEnum


class CostModel(StrEnum):
    """What the cost of a batch is counted in."""

    TOKENS = "tokens"
    ROOFLINE = "roofline"
