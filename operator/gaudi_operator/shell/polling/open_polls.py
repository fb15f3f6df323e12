"""The limit on the number of open long-polls."""

import contextlib
from collections.abc import Iterator


class OpenPolls:
    """A counter of open polls, with a lower limit for serving pods.

    Serving pods use at most a quarter of the polls, because gates depend on the reports of other pods.
    """

    def __init__(self, max_polls: int) -> None:
        """Create a counter with a limit of `max_polls` open polls."""
        self._max_polls, self._open_count = max_polls, 0

    @contextlib.contextmanager
    def try_open(self, serves: bool) -> Iterator[bool]:
        """Yield True if the limit permits an open poll. The poll counts as open until the context ends."""
        granted = self._open_count < (self._max_polls // 4 if serves else self._max_polls)
        self._open_count += granted
        try:
            yield granted
        finally:
            self._open_count -= granted
