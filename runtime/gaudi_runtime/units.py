"""Bytes in words: how sentences, log lines and tables say an amount."""

MIB, GIB = 2**20, 2**30

_UNITS = ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB"))


def size(count: int) -> str:
    """Bytes with at most four digits in the largest unit that fits: 14.03 GiB, 161.9 MiB, -252 KiB, 12 B."""
    unit, name = next((each for each in _UNITS if abs(count) >= each[0]), (1, "B"))
    return f"{count / unit:.4g} {name}"


def gib(count: float) -> str:
    """Bytes in GiB with two decimals, so that amounts in one table or sentence compare at a glance."""
    return f"{count / GIB:.2f} GiB"
