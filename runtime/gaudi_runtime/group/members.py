"""The ranks of a group as the leader holds them: one connection each, asked together, missed within seconds.

Used from the event loop but for `missing`, `address` and `tell`, which the worker thread of start-up calls.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from gaudi_runtime.engines.protocol import Progress
from gaudi_runtime.errors import EngineLost, PortUnavailable
from gaudi_runtime.group.messages import MOST_LINE_BYTES, Hello, Order, Verb, Word, line
from gaudi_runtime.group.place import Place
from gaudi_runtime.process.signals import Signals

BEAT_SECONDS = 2.0
SILENT_SECONDS = 30.0
"""Without a word for so long a rank is lost, or a leader: its node may have gone without a farewell."""
LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


def say(writer: asyncio.StreamWriter, message: Hello | Order | Word) -> None:
    """Send, unless the connection is closed: how it ended is found out where it is read."""
    if not writer.is_closing():
        writer.write(line(message))


class Members:
    """All ranks but the leader's own. Use as an async context manager.

    `config` is the digest of the configuration that all must have, `moved` hears when a rank has made progress, as
    `moves` counts, and `signals` what was asked of a rank's pod.
    """

    def __init__(self, place: Place, port: int, config: str, moved: Callable[[], None], signals: Signals) -> None:
        self._place, self._port, self._config = place, port, config
        self._moved, self._signals = moved, signals
        self.moves = 0
        self._loop = asyncio.get_running_loop()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._complete = threading.Event()
        self._waiting: dict[int, Future[Word]] = {}
        self._lost: asyncio.Future[EngineLost] = self._loop.create_future()

    async def __aenter__(self) -> Self:
        """Let ranks join. Raises PortUnavailable."""
        try:
            self._server = await asyncio.start_server(self._joined, port=self._port, limit=MOST_LINE_BYTES)
        except OSError as error:
            raise PortUnavailable(f"Port {self._port} for the ranks of this group is taken: {error}.") from error
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say farewell to all."""
        self._beating.cancel()
        self._server.close()
        for writer in self._writers.values():
            say(writer, Order(farewell=True))
            writer.close()

    def missing(self, seconds: float) -> list[int]:
        """The ranks that have not joined yet, after `seconds` at the latest. From any thread."""
        if self._complete.wait(seconds):
            return []
        return [rank for rank in range(1, self._place.size) if rank not in self._writers]

    def address(self) -> str:
        """The address by which the complete group has reached this pod."""
        writer = next(iter(self._writers.values()))
        return str(writer.get_extra_info("sockname")[0])

    def tell(self, verb: Verb, *arguments: object) -> "dict[int, Future[Word]]":
        """Tell all ranks to do one verb; the answer of each, EngineLost once a rank is lost. From any thread."""
        answers: dict[int, Future[Word]] = {rank: Future() for rank in range(1, self._place.size)}
        self._loop.call_soon_threadsafe(self._tell, Order(verb=verb, arguments=arguments), answers)
        return answers

    async def until_lost(self) -> EngineLost:
        """Returns when a rank of the complete group is gone, with the sentence that says which."""
        return await asyncio.shield(self._lost)

    def _tell(self, order: Order, answers: "dict[int, Future[Word]]") -> None:
        self._waiting = answers
        if self._lost.done():
            self._give_up(self._lost.result())
        for writer in self._writers.values():
            say(writer, order)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its hello to its end."""
        rank = await self._admitted(reader, writer)
        if rank is None:
            writer.close()
            return
        if old := self._writers.pop(rank, None):
            old.close()
        self._writers[rank] = writer
        log.info("Rank %d has joined, %d of %d are here", rank, len(self._writers) + 1, self._place.size)
        if len(self._writers) == self._place.size - 1:
            self._complete.set()
        why = await self._listen(rank, reader)
        if self._writers.get(rank) is writer:
            del self._writers[rank]
            self._miss(rank, why)
        writer.close()

    async def _admitted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
        try:
            hello = Hello.model_validate_json(await asyncio.wait_for(reader.readline(), SILENT_SECONDS))
        except (ValidationError, ValueError, OSError, TimeoutError):
            return None
        if hello.rank < self._place.size and hello.config == self._config:
            if self._complete.is_set():
                self._miss(hello.rank, "it has started anew")
                return None
            return hello.rank
        refused = "its configuration is another one" if hello.config != self._config else "there is no such rank"
        say(writer, Order(refused=f"Rank {hello.rank} may not join this group: {refused}."))
        with suppress(OSError):
            await writer.drain()
        return None

    async def _listen(self, rank: int, reader: asyncio.StreamReader) -> str:
        """Take in what a rank says; returns how it ended."""
        try:
            while text := await asyncio.wait_for(reader.readline(), SILENT_SECONDS):
                self._hear(rank, Word.model_validate_json(text))
        except TimeoutError:
            return f"it has said nothing for {SILENT_SECONDS:.0f} s"
        except (ValidationError, ValueError) as error:
            return f"what it says cannot be read: {error}"
        except OSError as error:
            return f"its connection broke: {error}"
        return "its process has ended"

    def _hear(self, rank: int, word: Word) -> None:
        if word.moved:
            self.moves += 1
            self._moved()
        if word.closing:
            self._signals.ask_to_close()
        if word.stopping:
            self._signals.ask_to_stop()
        if word.done and not self._waiting[rank].done():
            self._waiting[rank].set_result(word)

    def _miss(self, rank: int, why: str) -> None:
        """Before all are here one may come again; afterwards what it had compiled and held is lost with it."""
        if not self._complete.is_set():
            log.warning("Rank %d has left: %s", rank, why)
        elif not self._lost.done():
            error = EngineLost(f"Rank {rank} of this group is lost: {why}.")
            self._lost.set_result(error)
            self._give_up(error)

    def _give_up(self, error: EngineLost) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)

    async def _beat(self) -> None:
        while True:
            for writer in self._writers.values():
                say(writer, Order())
            await asyncio.sleep(BEAT_SECONDS)


def wait_for_all(members: Members, waits: Callable[[list[int]], None], progress: Progress) -> None:
    """Wait until every rank has joined: a pod may wait for a node for hours, and nothing stands still."""
    while missing := members.missing(LOOK_SECONDS):
        waits(missing)
        progress()
    waits([])
