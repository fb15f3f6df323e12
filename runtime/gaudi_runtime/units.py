"""Amounts in words: how sentences, log lines and tables say bytes, counts and what somebody wrote."""

MIB, GIB = 2**20, 2**30

MAX_QUOTED = 80

_UNITS = ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB"))


def size(count: int) -> str:
    """Bytes with at most four digits in the largest unit that fits: 14.03 GiB, 161.9 MiB, -252 KiB, 12 B."""
    unit, name = next((each for each in _UNITS if abs(count) >= each[0]), (1, "B"))
    return f"{count / unit:.4g} {name}"


def gib(count: float) -> str:
    """Bytes in GiB with two decimals, so that amounts in one table or sentence compare at a glance."""
    return f"{count / GIB:.2f} GiB"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """The count with its noun: 1 replica, 2 replicas, 0 copies. `nouns` is a plural that is not made by an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def quoted(text: str) -> str:
    """`text` inside a sentence about it: as it is, or its first 80 characters and two dots.

    What is no character to be shown is written as Python writes it: a terminal would obey some of them.
    """
    first = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text[:MAX_QUOTED])
    return first if len(text) <= MAX_QUOTED else f"{first}.."
