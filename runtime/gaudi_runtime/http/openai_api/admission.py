"""Admission of sequences to the model port: a limited number of places, and status 429 if too few places are free."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded

COUNT = TypeAdapter(int)
"""The type of `n`, which accepts the same numbers and texts as the request models of the engines."""


class SequenceAdmission:
    """The admission of sequences to a limited number of places, from the end of their body to the end of their answer.

    Only the event loop may use this class.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used_places = 0

    @contextmanager
    def admit(self, sequences: int) -> Iterator[None]:
        """Reserve places for `sequences` during the block.

        Raises Overloaded, or InvalidRequest if `sequences` exceeds the total number of places.
        """
        if sequences > self.capacity:
            raise InvalidRequest(
                "The request has more sequences (prompts x n) than this server can run and queue at once, which is "
                f"{self.capacity}. Send fewer prompts in a request, or lower n.",
                "n",
            )
        self.check_free(sequences)
        self.used_places += sequences
        try:
            yield
        finally:
            self.used_places -= sequences

    def check_free(self, sequences: int = 1) -> None:
        """Raise Overloaded if fewer places than `sequences` are free."""
        if self.used_places + sequences > self.capacity:
            raise Overloaded(
                f"The queue is full: {self.used_places} of {self.capacity} places are taken by sequences that run or "
                f"wait, and the request needs {sequences}. Try again later.",
                code="queue_full",
            )


def count_sequences_to_admit(prompts: Any, n: Any) -> int:
    """Return the number of sequences of a request: `n` for each prompt. A list of token IDs is one prompt.

    Engines run as many beams as `n`. If a value is invalid, the application rejects the request, so 1 is enough.
    """
    is_batch = isinstance(prompts, list) and prompts and not isinstance(prompts[0], int)
    try:
        # Most requests have no `n`, and an error of pydantic takes longer than all other checks of a request.
        choices = 1 if n is None else max(1, COUNT.validate_python(n))
    except ValidationError:
        choices = 1
    return choices * (len(prompts) if is_batch else 1)
