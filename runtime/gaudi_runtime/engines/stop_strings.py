"""Detection of stop strings in streamed text. Text that may be the start of a stop string is held back."""

from collections.abc import Sequence


class StopStrings:
    """The stop strings of one completion. Text that may be the beginning of a stop string is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held_text = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Add `text` and return the text that may be sent now. After a stop string, return only the text before it."""
        self._held_text += text
        positions = [position for position in (self._held_text.find(stop) for stop in self._stops) if position >= 0]
        if positions:
            self.stopped = True
            return self._held_text[: min(positions)]
        # Hold back text that may be the beginning of a stop string, because text cannot be withdrawn after it was sent
        # to the client.
        longest_overlap = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._held_text) - longest_overlap
        text_to_send, self._held_text = self._held_text[:cut], self._held_text[cut:]
        return text_to_send

    def flush(self) -> str:
        """Return the text that is still held back, at the end of a completion without a stop string."""
        out, self._held_text = self._held_text, ""
        return out

    def _overlap(self, stop: str) -> int:
        """Return the length of the longest suffix of the held text that is a prefix of `stop`."""
        longest = min(len(stop) - 1, len(self._held_text))
        return next((size for size in range(longest, 0, -1) if self._held_text.endswith(stop[:size])), 0)
