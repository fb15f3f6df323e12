"""Durations as kubectl reads them: 90s, 5m, 1h30m, or 0 for no end."""

import re

from gaudi_operator.cli.kubectl.refusal import Refused

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


def seconds(text: str) -> float:
    """Seconds of a duration. Raises Refused for anything else."""
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise Refused(f"{text} is no duration: write one such as 90s, 5m or 1h30m")
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
