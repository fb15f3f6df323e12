"""Percentages of a phase: floored, and compared by counts (docs/warmup.md, Percentages)."""


def percent(part: int, planned: int) -> int | None:
    """`part` of `planned` buckets in whole percent, floored, so 999 of 1000 is 99. None when nothing is planned."""
    return None if planned == 0 else part * 100 // planned


def meets(part: int, planned: int, min_percent: int) -> bool | None:
    """Whether `part` of `planned` reaches `min_percent`, without rounding. None when nothing is planned."""
    return None if planned == 0 else part * 100 >= min_percent * planned
