"""How many long-polls are held open at a time."""

import contextlib
from collections.abc import Iterator


class OpenPolls:
    """How many polls are held open at a time, and whose.

    Pods that serve take a quarter of them at most, and give way: whether a gate opens is for the others to say.
    """

    def __init__(self, most: int) -> None:
        """At most `most` polls are held; none is yet."""
        self._most, self._now = most, 0

    @contextlib.contextmanager
    def hold(self, serves: bool) -> Iterator[bool]:
        """Whether a poll of such a pod may be held; it is until the block ends."""
        granted = self._now < (self._most // 4 if serves else self._most)
        self._now += granted
        try:
            yield granted
        finally:
            self._now -= granted
