"""How many sequences are in the house: one batch full, and a queue. Whoever comes then hears 429 at once."""

from types import TracebackType

from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded


class Admission:
    """Counts sequences from arrival to the end of their answer; used in the event loop only."""

    def __init__(self, running: int, queued: int) -> None:
        self.capacity = running + queued
        self.inside = 0

    def admit(self, sequences: int) -> "Ticket":
        """Take `sequences` places. Raises Overloaded, or InvalidRequest when even an empty house is too small."""
        if sequences > self.capacity:
            raise InvalidRequest(
                f"The request asks for {sequences} completions; this server takes at most {self.capacity}.", "n"
            )
        if self.inside + sequences > self.capacity:
            raise Overloaded(f"All {self.capacity} places are taken, running and queued; try again.", code="queue_full")
        self.inside += sequences
        return Ticket(self, sequences)


class Ticket:
    """The places of one request; leaving the block gives them back, once."""

    def __init__(self, admission: Admission, sequences: int) -> None:
        self._admission, self._sequences = admission, sequences

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.inside -= self._sequences
        self._sequences = 0
