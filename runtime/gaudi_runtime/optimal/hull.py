"""The lowest of many lines at a point that only moves right."""

from collections import deque


class LowestLine:
    """Lines are added with falling slopes and asked for at rising points; each costs constant time on average."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, float, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, slope: float, intercept: float, tag: int) -> None:
        """A line whose slope is at most that of every line before."""
        if self._lines and self._lines[-1][0] == slope:
            if self._lines[-1][1] <= intercept:
                return
            self._lines.pop()
        while len(self._lines) > 1 and self._is_never_lowest(slope, intercept):
            self._lines.pop()
        self._lines.append((slope, intercept, tag))

    def lowest(self, point: float) -> tuple[float, int]:
        """(value, tag) of the lowest line at `point`, which is at least every point asked for before."""
        lines = self._lines
        while len(lines) > 1 and lines[1][0] * point + lines[1][1] <= lines[0][0] * point + lines[0][1]:
            lines.popleft()
        slope, intercept, tag = lines[0]
        return slope * point + intercept, tag

    def _is_never_lowest(self, slope: float, intercept: float) -> bool:
        """Whether the last line is nowhere below both its predecessor and the new line."""
        (slope_a, intercept_a, _), (slope_b, intercept_b, _) = self._lines[-2], self._lines[-1]
        return (intercept - intercept_a) * (slope_a - slope_b) <= (intercept_b - intercept_a) * (slope_a - slope)
