"""Text from tokens, one at a time: whole characters only, and nothing that may turn out to be a stop string."""

from collections.abc import Callable

Decode = Callable[[list[int]], str]
"""Text of token ids, special tokens left out."""

INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """The text of one answer. What it hands out, put together, is the decoded answer up to the first stop string."""

    def __init__(self, decode: Decode, stop: tuple[str, ...]) -> None:
        self.stopped = False
        self._decode = decode
        self._stop = tuple(string for string in stop if string)
        self._tokens: list[int] = []
        self._shown = ""
        self._held = ""

    def push(self, token: int) -> str:
        """The new text that this token makes certain, often empty; sets `stopped` at a stop string."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        if text.endswith(INCOMPLETE):
            return ""
        return self._release(self._advance(text))

    def flush(self) -> str:
        """What is left at the end of the answer, incomplete characters included."""
        text = self._release(self._advance(self._decode(self._tokens)))
        if self.stopped:
            return text
        held, self._held = self._held, ""
        return text + held

    def _advance(self, text: str) -> str:
        """New text since the last call. Older tokens are dropped, but for those that later ones may join with."""
        new = text[len(self._shown) :]
        self._tokens = self._tokens[-1:]
        self._shown = self._decode(self._tokens)
        return new

    def _release(self, new: str) -> str:
        """Cut at the first stop string, or keep back what could become one."""
        text = self._held + new
        if found := [place for string in self._stop if (place := text.find(string)) >= 0]:
            self.stopped = True
            self._held = ""
            return text[: min(found)]
        keep = max((_overlap(text, string) for string in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, string: str) -> int:
    """Length of the longest end of `text` that is a beginning of `string`, but not all of it."""
    longest = min(len(text), len(string) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(string[:size])), 0)
