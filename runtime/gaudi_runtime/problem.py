"""One type for every judgement that something is wrong, on both sides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A stable reason for programs, and a sentence for people that says what is wrong and what to do.

    `lasting` is the sentence that stays true when the pod it speaks of is gone, where that is another one.
    """

    reason: str
    message: str
    lasting: str | None = None

    @property
    def kept(self) -> str:
        """What may still be said when the pod is gone."""
        return self.lasting or self.message
