"""Amounts in at most five characters, for the cells of a heat map."""

_BINARY = ("B", "K", "M", "G", "T", "P")
_DECIMAL = ("", "k", "m", "g")


def byte_text(amount: float) -> str:
    """Bytes in powers of 1024: 367M, 1.4G."""
    return _scaled(amount, 1024, _BINARY)


def count_text(amount: float) -> str:
    """A count in powers of 1000: 12, 1.2k, 3m for millions."""
    return _scaled(amount, 1000, _DECIMAL)


def _scaled(amount: float, base: int, units: tuple[str, ...]) -> str:
    position = 0
    while amount >= base and position < len(units) - 1:
        amount /= base
        position += 1
    return f"{amount:.1f}{units[position]}" if position and amount < 10 else f"{amount:.0f}{units[position]}"
