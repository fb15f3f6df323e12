"""The other pods of a group for an engine whose own launcher joins their processes to its own."""

import socket
from collections.abc import Callable
from concurrent.futures import Future

from gaudi_runtime.engines.protocol import Meeting, Progress
from gaudi_runtime.group.fold import raise_first_failure
from gaudi_runtime.group.members import Members
from gaudi_runtime.group.messages import Verb, Word

LOOK_SECONDS = 1.0


class OtherPods:
    """`members` are their connections; `waits` hears for which ranks the group waits."""

    def __init__(self, members: Members, waits: Callable[[list[int]], None]) -> None:
        self._members, self._waits = members, waits
        self._starting: dict[int, Future[Word]] = {}

    def start(self, progress: Progress) -> Meeting:
        """Wait until all are there and let each start its processes, which is not waited for."""
        wait_for_all(self._members, self._waits, progress)
        meeting = Meeting(self._members.address(), free_port())
        self._starting = self._members.tell(Verb.LOAD, *meeting)
        return meeting

    def raise_if_failed(self) -> None:
        """Raises RankFailed with the reason of a pod that could not start its processes, EngineLost for one lost."""
        raise_first_failure({rank: each.result() for rank, each in self._starting.items() if each.done()})

    def moves(self) -> int:
        """Grows whenever something moves in one of them."""
        return self._members.moves

    def serve(self) -> None:
        """Let them say that the replica serves; nothing is waited for."""
        self._members.tell(Verb.SERVE)


def wait_for_all(members: Members, waits: Callable[[list[int]], None], progress: Progress) -> None:
    """Wait until every rank has joined: a pod may wait for a node for hours, and nothing stands still."""
    while missing := members.missing(LOOK_SECONDS):
        waits(missing)
        progress()
    waits([])


def free_port() -> int:
    """A port that nobody listens on now; whoever takes it first has it."""
    with socket.create_server(("", 0)) as probe:
        return int(probe.getsockname()[1])
