"""The formatting of bytes and counts for sentences, log lines and tables."""

MIB, GIB = 2**20, 2**30

_UNITS = ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB"))


def format_bytes(byte_count: int) -> str:
    """Format bytes with at most four digits and a suitable unit: 14.03 GiB, 161.9 MiB, -252 KiB, 12 B."""
    unit_bytes, unit_name = next((entry for entry in _UNITS if abs(byte_count) >= entry[0]), (1, "B"))
    return f"{byte_count / unit_bytes:.4g} {unit_name}"


def format_gib(byte_count: float) -> str:
    """Format bytes in GiB with two decimals, so that values in one table or sentence are easy to compare."""
    return f"{byte_count / GIB:.2f} GiB"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun: 1 replica, 2 replicas, 0 copies. `nouns` is an irregular plural."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
