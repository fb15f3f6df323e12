"""A rank of a group. It connects to the leader, executes its commands, and ends with the leader."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.engine_protocol.engine import Progress
from gaudi_runtime.engine_protocol.group import LeaderEndpoint, PodPart, Rank
from gaudi_runtime.engine_protocol.messages import (
    MOST_LINE_BYTES,
    HelloMessage,
    LeaderMessage,
    MessageVerb,
    UpdateMessage,
    failure_message_from_error,
    message_config_digest,
)
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.group.peers import PACE, Pace, send_message_to_peer
from gaudi_runtime.group.topology import Topology
from gaudi_runtime.process.children import measure_activity
from gaudi_runtime.process.exit import exit_when_lost
from gaudi_runtime.process.signals import Signals, Stopped
from gaudi_runtime.process.worker import run_in_worker_thread
from gaudi_runtime.report.report_board import ReportBoard

log = logging.getLogger(__name__)

PHASES = {
    MessageVerb.LOAD: Phase.LOADING,
    MessageVerb.PROFILE: Phase.PROFILING,
    MessageVerb.ALLOCATE: Phase.ALLOCATING,
    MessageVerb.WARM: Phase.COMPILING,
    MessageVerb.SAMPLER: Phase.SAMPLER,
    MessageVerb.DEFRAGMENTER: Phase.DEFRAGMENTER,
    MessageVerb.CAPTURE: Phase.CAPTURING,
    MessageVerb.SERVE: Phase.SERVING,
}
"""The phase in the report of a rank while it runs a command; other commands do not change it."""


async def follow_leader(
    config: RuntimeConfig,
    topology: Topology,
    board: ReportBoard,
    signals: Signals,
    make_engine: Callable[[], Rank | PodPart],
    pace: Pace = PACE,
    read_activity: Callable[[], object] = measure_activity,
) -> None:
    """Run as a rank of a group until the leader sends its farewell message.

    `read_activity` returns a value that changes while the processes of this pod work. Raises EngineLost if the leader
    is lost, and Stopped if SIGTERM arrives before the leader is reachable.
    """
    reader, writer = await _connect_to_leader(topology, config.serving.group_port, board, signals, pace)
    hello = HelloMessage(rank=topology.rank, config=message_config_digest(config))
    connection = _LeaderConnection(reader, writer, hello, board, signals, make_engine, pace, read_activity)
    connection_task = asyncio.ensure_future(connection.run())
    stop_task = asyncio.ensure_future(signals.stop.wait())
    try:
        await asyncio.wait({connection_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        if signals.stop.is_set():
            connection.send_signals()
        # After SIGTERM, the leader finishes its running requests within the drain time. This rank must keep running
        # until then, because the requests need it.
        await asyncio.wait({connection_task}, timeout=config.serving.drain_seconds + pace.close_seconds)
        if connection_task.done():
            connection_task.result()
        connection_task.cancel()
        await connection.close()
    finally:
        connection_task.cancel()
        stop_task.cancel()


async def _connect_to_leader(
    topology: Topology, port: int, board: ReportBoard, signals: Signals, pace: Pace
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the leader and retry until it is reachable."""
    while not signals.stop.is_set():
        board.restart_stall_clock()  # waiting is not a stall: the leader's pod may have no node yet
        try:
            return await asyncio.open_connection(topology.leader, port, limit=MOST_LINE_BYTES)
        except OSError as error:
            log.debug("The leader %s cannot be reached yet: %s", topology.leader, error)
        await asyncio.sleep(pace.poll_seconds)
    raise Stopped


class _LeaderConnection:
    """One connection to the leader. Commands run one at a time, in a worker thread."""

    _command_task: asyncio.Task[None]
    """The task of the last command, referenced here because the event loop keeps only weak references."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hello: HelloMessage,
        board: ReportBoard,
        signals: Signals,
        make_engine: Callable[[], Rank | PodPart],
        pace: Pace,
        read_activity: Callable[[], object],
    ) -> None:
        self._reader, self._writer, self._hello, self._board, self._signals = reader, writer, hello, board, signals
        self._make_engine, self._pace, self._read_activity = make_engine, pace, read_activity
        self._engine: Rank | PodPart | None = None
        self._loop = asyncio.get_running_loop()
        self._helper_tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Execute commands from the first message to the farewell message. Raises EngineLost."""
        self._send(self._hello)
        self._helper_tasks.append(asyncio.create_task(self._send_heartbeats()))
        try:
            while True:
                message = await self._receive()
                if message.farewell:
                    log.info("The leader has ended this group.")
                    return
                if message.refused:
                    raise EngineLost(message.refused)
                if message.verb:
                    self._command_task = asyncio.create_task(self._run_command(message.verb, message.arguments))
        finally:
            for task in self._helper_tasks:
                task.cancel()
            self._writer.close()  # the leader waits for that

    async def close(self) -> None:
        """End the processes that this rank has started for an engine in several pods."""
        if isinstance(self._engine, PodPart):
            await self._engine.close()

    async def _receive(self) -> LeaderMessage:
        try:
            line = await asyncio.wait_for(self._reader.readline(), self._pace.silence_seconds)
            if line:
                return LeaderMessage.model_validate_json(line)
        except TimeoutError:
            raise EngineLost(
                f"The leader of this group has sent nothing for {self._pace.silence_seconds:.0f} s."
            ) from None
        except (OSError, ValueError) as error:
            raise EngineLost(f"The connection to the leader of this group was lost: {error}.") from error
        raise EngineLost("The leader process of this group has ended.")

    async def _run_command(self, verb: MessageVerb, arguments: Sequence[Any]) -> None:
        if verb in PHASES and verb is not MessageVerb.SERVE:
            self._board.update(phase=PHASES[verb])
        try:
            answer = await run_in_worker_thread(
                lambda: run_command_of_leader(self._ensure_engine(), verb, arguments, self._report_progress)
            )
        except Exception as error:  # the leader decides, because its report is that of the group
            log.warning("%s failed: %s", verb, error, exc_info=error)
            self._send(UpdateMessage(done=verb, failure=failure_message_from_error(error)))
            return
        if verb is MessageVerb.SERVE:
            self._board.update(phase=PHASES[verb])
        if verb is MessageVerb.LOAD and isinstance(self._engine, PodPart):
            self._helper_tasks.append(asyncio.create_task(exit_when_lost(self._engine.wait_until_lost, self._board)))
        self._board.restart_stall_clock()
        self._send(UpdateMessage(done=verb, answer=answer))

    def _ensure_engine(self) -> Rank | PodPart:
        if self._engine is None:
            self._engine = self._make_engine()
        return self._engine

    def _report_progress(self) -> None:
        """Reset the stall timeout here and in the leader. This method is called from the worker thread."""
        self._board.restart_stall_clock()
        self._loop.call_soon_threadsafe(self._send, UpdateMessage(moved=True))

    def _send(self, message: HelloMessage | UpdateMessage) -> None:
        send_message_to_peer(self._writer, message)

    def send_signals(self) -> None:
        """Send a heartbeat with the state of the signals that this pod received."""
        self._send(UpdateMessage(closing=self._signals.closing, stopping=self._signals.stop.is_set()))

    async def _send_heartbeats(self) -> None:
        # An engine's processes do not report progress while they start. Therefore any activity of these processes
        # counts as progress.
        last_activity = self._read_activity()
        while True:
            await asyncio.sleep(self._pace.heartbeat_seconds)
            self.send_signals()
            if (activity := await asyncio.to_thread(self._read_activity)) != last_activity:
                last_activity = activity
                self._report_progress()


def run_command_of_leader(
    engine: Rank | PodPart, verb: MessageVerb, arguments: Sequence[Any], progress: Progress
) -> Any:
    """Run one engine command and return its answer as plain data. It blocks and raises the engine's errors."""
    if not isinstance(engine, PodPart):
        return engine.run_command(verb, arguments, progress)
    # If an engine spans several pods, each pod only starts its processes. The leader calls these processes directly for
    # all other commands.
    return engine.join(LeaderEndpoint(*arguments), progress) if verb is MessageVerb.LOAD else None
