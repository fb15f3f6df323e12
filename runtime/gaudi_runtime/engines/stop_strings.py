"""Detection of stop strings in streamed text. Text that may be the start of a stop string is held back."""

from collections.abc import Sequence


class StopStrings:
    """The stop strings of one completion. Text that may be the beginning of a stop string is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Add `text` and return the text that may be sent now. After a stop string, return only the text before it."""
        self._held += text
        found = [at for at in (self._held.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped = True
            return self._held[: min(found)]
        # Hold back text that may be the beginning of a stop string, because text cannot be withdrawn after it was sent
        # to the client.
        keep = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        out, self._held = self._held[:cut], self._held[cut:]
        return out

    def flush(self) -> str:
        """Return the text that is still held back, at the end of a completion without a stop string."""
        out, self._held = self._held, ""
        return out

    def _overlap(self, stop: str) -> int:
        """Return the length of the longest suffix of the held text that is a prefix of `stop`."""
        longest = min(len(stop) - 1, len(self._held))
        return next((size for size in range(longest, 0, -1) if self._held.endswith(stop[:size])), 0)
