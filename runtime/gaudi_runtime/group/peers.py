"""The leader's view of its ranks: one connection for each rank, commands to all ranks, and detection of lost ranks."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engine_protocol.engine import Engine, Progress
from gaudi_runtime.engine_protocol.group import LeaderEndpoint, MultiPodEngine
from gaudi_runtime.engine_protocol.messages import (
    MOST_LINE_BYTES,
    HelloMessage,
    LeaderMessage,
    MessageVerb,
    UpdateMessage,
    encode_message,
    message_config_digest,
    raise_first_failure_message,
)
from gaudi_runtime.errors import EngineLost, PortUnavailable
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.process.exit import exit_on_loss
from gaudi_runtime.process.signals import Signals
from gaudi_runtime.report.report_board import ReportBoard

Make = Callable[[RuntimeConfig], Engine]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """The intervals and timeouts between the leader and its peers, in seconds.

    heartbeat_seconds  the interval of heartbeats
    silence_seconds    the timeout without a message after which a rank or the leader counts as lost
    poll_seconds       the interval of checks for missing ranks
    farewell_seconds   the timeout of a rank's disconnection after the farewell
    close_seconds      the timeout of closing the leader's engine after its last answer
    """

    heartbeat_seconds: float = 2.0
    silence_seconds: float = 30.0
    poll_seconds: float = 1.0
    farewell_seconds: float = 1.0
    close_seconds: float = 5.0


PACE = Pace()


@asynccontextmanager
async def lead_peers(
    config: RuntimeConfig, topology: Topology, board: ReportBoard, signals: Signals, make_engine: Make
) -> AsyncIterator[Make]:
    """Accept the ranks of a group while the block runs, and yield a `make_engine` for the engine of the whole group.

    Without a group, `make_engine` is unchanged. The block is ended if a rank is lost. Raises PortUnavailable.
    """
    if topology.size == 1:
        yield make_engine
        return
    peers = Peers(topology, config.serving.group_port, message_config_digest(config), board, signals)
    async with peers.accept_ranks(), exit_on_loss(peers.wait_until_lost, board):

        def make_group_engine(config: RuntimeConfig) -> Engine:
            engine = make_engine(config)
            cast("MultiPodEngine", engine).set_other_pods(peers)
            return engine

        yield make_group_engine


def send_message_to_peer(writer: asyncio.StreamWriter, message: HelloMessage | LeaderMessage | UpdateMessage) -> None:
    """Send one message. A closed connection is ignored, because the reader of the connection detects it."""
    if not writer.is_closing():
        writer.write(encode_message(message))


class Peers:
    """All ranks of a group except the leader, as `OtherPods` of the leader's engine.

    `digest` is the digest of the configuration that all ranks must have. The `board` shows the progress of the ranks,
    and signals of their pods are forwarded to `signals`.
    """

    def __init__(
        self,
        topology: Topology,
        port: int,
        digest: str,
        board: ReportBoard,
        signals: Signals,
        pace: Pace = PACE,
    ) -> None:
        self._topology, self._port, self._config_digest = topology, port, digest
        self._board, self._signals, self._pace = board, signals, pace
        self._progress_reports = 0
        self._start_answers: dict[int, Future[UpdateMessage]] = {}
        self._loop = asyncio.get_running_loop()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._all_joined = threading.Event()
        self._pending_answers: dict[int, Future[UpdateMessage]] = {}
        self._loss: asyncio.Future[EngineLost] = self._loop.create_future()

    @asynccontextmanager
    async def accept_ranks(self) -> AsyncIterator[None]:
        """Accept connections of ranks while the block runs, then send a farewell message. Raises PortUnavailable."""
        try:
            server = await asyncio.start_server(self._handle_connection, port=self._port, limit=MOST_LINE_BYTES)
        except OSError as error:
            raise PortUnavailable(f"Port {self._port} for the ranks of this group is in use: {error}.") from error
        heartbeat_task = asyncio.create_task(self._send_heartbeats())
        try:
            yield
        finally:
            heartbeat_task.cancel()
            server.close()
            await self._send_farewell()

    def poll_missing_ranks(self, seconds: float) -> list[int]:
        """Wait at most `seconds` for all ranks, and return the ranks that have not joined. Thread-safe."""
        if self._all_joined.wait(seconds):
            return []
        return [rank for rank in range(1, self._topology.size) if rank not in self._writers]

    def address(self) -> str:
        """The address of this pod that the ranks are connected to."""
        writer = next(iter(self._writers.values()))
        return str(writer.get_extra_info("sockname")[0])

    def wait_for_ranks(self, progress: Progress) -> None:
        """Wait until every rank has joined. Thread-safe."""
        # A pod may wait hours for a node. Therefore a missing rank is a warning in the report and does not count as a
        # stall.
        while missing := self.poll_missing_ranks(self._pace.poll_seconds):
            self._report_missing(missing)
            progress()
        self._report_missing([])

    def start(self, progress: Progress) -> LeaderEndpoint:
        """Wait for all ranks and send them the command to start, without waiting for the result. Thread-safe."""
        self.wait_for_ranks(progress)
        endpoint = LeaderEndpoint(self.address(), _free_port())
        self._start_answers = self.send_command(MessageVerb.LOAD, *endpoint)
        return endpoint

    def raise_if_failed(self) -> None:
        """Raise RankFailed if a pod could not start its processes, or EngineLost if a rank was lost."""
        raise_first_failure_message(
            {rank: answer.result() for rank, answer in self._start_answers.items() if answer.done()}
        )

    def progress_count(self) -> int:
        """Return a counter that grows each time a rank reports progress."""
        return self._progress_reports

    def announce_serving(self) -> None:
        """Send the ranks the command to report that the replica serves, without waiting."""
        self.send_command(MessageVerb.SERVE)

    def send_command(self, verb: MessageVerb, *arguments: object) -> "dict[int, Future[UpdateMessage]]":
        """Send a command to all ranks and return their answers as futures. Thread-safe.

        A future raises EngineLost if a rank is lost.
        """
        answers: dict[int, Future[UpdateMessage]] = {rank: Future() for rank in range(1, self._topology.size)}
        self._loop.call_soon_threadsafe(self._send_all, LeaderMessage(verb=verb, arguments=arguments), answers)
        return answers

    async def wait_until_lost(self) -> EngineLost:
        """Wait until a rank of the complete group is lost, and return the error with its number."""
        return await asyncio.shield(self._loss)

    async def _send_farewell(self) -> None:
        """Send a farewell and wait until the ranks close. Closing with unread data would discard the message."""
        for writer in self._writers.values():
            send_message_to_peer(writer, LeaderMessage(farewell=True))
        closing_tasks = [asyncio.ensure_future(writer.wait_closed()) for writer in self._writers.values()]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.farewell_seconds):
                await asyncio.gather(*closing_tasks, return_exceptions=True)
        for writer in self._writers.values():
            writer.close()

    def _report_missing(self, ranks: list[int]) -> None:
        pods = f"{'pod of rank' if len(ranks) == 1 else 'pods of ranks'} {', '.join(map(str, ranks))}"
        warnings = (f"The group waits for the {pods}.",) if ranks else ()
        if self._board.report().warnings != warnings:
            self._board.update(warnings=warnings)

    def _send_all(self, message: LeaderMessage, answers: "dict[int, Future[UpdateMessage]]") -> None:
        self._pending_answers = answers
        if self._loss.done():  # a rank may be lost between two commands
            self._fail_answers(self._loss.result())
        for writer in self._writers.values():
            send_message_to_peer(writer, message)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection from its first message to its end."""
        rank = await self._admit(reader, writer)
        if rank is None:
            writer.close()
            return
        if previous_writer := self._writers.pop(rank, None):
            previous_writer.close()  # the process restarted before the loss of its connection was detected
        self._writers[rank] = writer
        log.info("Rank %d has joined: %d of %d ranks are connected", rank, len(self._writers) + 1, self._topology.size)
        if len(self._writers) == self._topology.size - 1:
            self._all_joined.set()
        reason = await self._read_updates(rank, reader)
        if self._writers.get(rank) is writer:
            del self._writers[rank]
            self._handle_lost_rank(rank, reason)
        writer.close()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
        try:
            hello = HelloMessage.model_validate_json(
                await asyncio.wait_for(reader.readline(), self._pace.silence_seconds)
            )
        except (ValidationError, ValueError, OSError, TimeoutError):
            return None
        reason = self._why_refused(hello, writer)
        if reason:
            send_message_to_peer(writer, LeaderMessage(refused=f"Rank {hello.rank} may not join this group: {reason}."))
            return None
        if self._all_joined.is_set():
            self._handle_lost_rank(hello.rank, "it has restarted")
            return None
        return hello.rank

    def _why_refused(self, hello: HelloMessage, writer: asyncio.StreamWriter) -> str | None:
        if hello.config != self._config_digest:
            return "its configuration differs from the leader's configuration"
        if hello.rank >= self._topology.size:
            return f"the group has only {self._topology.size} ranks, counted from 0"
        # A rank that restarts in its pod keeps the address of the pod. If the pod is lost, its connection closes or
        # times out.
        current_writer = self._writers.get(hello.rank)
        if self._all_joined.is_set() and current_writer and _peer_host(current_writer) != _peer_host(writer):
            return "a pod at another address already has this rank"
        return None

    async def _read_updates(self, rank: int, reader: asyncio.StreamReader) -> str:
        """Read the messages of a rank and return how the connection ended."""
        try:
            while line := await asyncio.wait_for(reader.readline(), self._pace.silence_seconds):
                self._handle_update(rank, UpdateMessage.model_validate_json(line))
        except TimeoutError:
            return f"it has sent nothing for {self._pace.silence_seconds:.0f} s"
        except (ValidationError, ValueError) as error:
            return f"its message cannot be parsed: {error}"
        except OSError as error:
            return f"its connection was lost: {error}"
        return "its process has ended"

    def _handle_update(self, rank: int, update: UpdateMessage) -> None:
        if update.moved:
            self._progress_reports += 1
            self._board.restart_stall_clock()
        # If one pod ends, the whole group ends. Therefore a signal to any pod is also handled as a signal to the
        # leader.
        if update.closing:
            self._signals.request_close()
        if update.stopping:
            self._signals.request_stop()
        answer = self._pending_answers.get(rank)
        if update.done and answer and not answer.done():
            answer.set_result(update)

    def _handle_lost_rank(self, rank: int, reason: str) -> None:
        if not self._all_joined.is_set():
            # Before the group is complete, a rank may join a second time. Later this is impossible, because the graphs
            # and the KV cache of the rank are lost.
            log.warning("Rank %d has left the group: %s", rank, reason)
        elif not self._loss.done():
            error = EngineLost(f"Rank {rank} of this group is lost: {reason}.")
            self._loss.set_result(error)
            self._fail_answers(error)

    def _fail_answers(self, error: EngineLost) -> None:
        for answer in self._pending_answers.values():
            if not answer.done():
                answer.set_exception(error)

    async def _send_heartbeats(self) -> None:
        while True:
            for writer in self._writers.values():
                send_message_to_peer(writer, LeaderMessage())
            await asyncio.sleep(self._pace.heartbeat_seconds)


def _peer_host(writer: asyncio.StreamWriter) -> str:
    return str(writer.get_extra_info("peername")[0])


def _free_port() -> int:
    """Return a free port for connections of peers. Another process may still take the port before it is used."""
    with socket.create_server(("", 0)) as probe:
        return int(probe.getsockname()[1])
