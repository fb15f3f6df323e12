"""The life of a rank beside the leader: join, do what is said, and end with the leader."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.engines.protocol import Meeting, OwnMemory, PodPart, Progress
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.group.members import BEAT_SECONDS, SILENT_SECONDS, say
from gaudi_runtime.group.messages import MOST_LINE_BYTES, Hello, Order, Verb, Word, config_digest, failure_of
from gaudi_runtime.group.place import Place
from gaudi_runtime.http.report_board import ReportBoard
from gaudi_runtime.process.children import pulse
from gaudi_runtime.process.exit import leave_when_lost
from gaudi_runtime.process.signals import Signals, Stopped
from gaudi_runtime.process.worker import in_worker_thread

TRY_SECONDS = 1.0
CLOSING_SECONDS = 5.0
"""What the leader's engine may take to end, once its answers are."""

log = logging.getLogger(__name__)

PHASES = {
    Verb.LOAD: Phase.LOADING,
    Verb.PROFILE: Phase.PROFILING,
    Verb.ALLOCATE: Phase.ALLOCATING,
    Verb.WARM: Phase.COMPILING,
    Verb.SAMPLER: Phase.SAMPLER,
    Verb.DEFRAGMENTER: Phase.DEFRAGMENTER,
    Verb.CAPTURE: Phase.CAPTURING,
    Verb.SERVE: Phase.SERVING,
}
"""What the report of a rank says while it does a verb; the others change nothing."""


async def follow(
    config: RuntimeConfig,
    place: Place,
    board: ReportBoard,
    signals: Signals,
    make: Callable[[], OwnMemory | PodPart],
) -> None:
    """Returns at the leader's farewell. After SIGTERM the leader drains for its time: its answers need this rank.

    Raises EngineLost when the leader is gone, and Stopped when SIGTERM came before it was there.
    """
    reader, writer = await _leader(place, config.serving.group_port, board, signals)
    connection = _Following(reader, writer, config, place, board, signals, make)
    following = asyncio.ensure_future(connection.run())
    stopping = asyncio.ensure_future(signals.stop.wait())
    try:
        await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if signals.stop.is_set():
            connection.tell_signals()
        await asyncio.wait({following}, timeout=config.serving.drain_seconds + CLOSING_SECONDS)
        if following.done():
            following.result()
        following.cancel()
        await connection.close()
    finally:
        following.cancel()
        stopping.cancel()
        writer.close()


async def _leader(
    place: Place, port: int, board: ReportBoard, signals: Signals
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the leader. Waiting is no standstill of ours: the leader's pod may have no node yet."""
    while not signals.stop.is_set():
        board.touch()
        try:
            return await asyncio.open_connection(place.leader, port, limit=MOST_LINE_BYTES)
        except OSError as error:
            log.debug("The leader %s is not there yet: %s", place.leader, error)
        await asyncio.sleep(TRY_SECONDS)
    raise Stopped


class _Following:
    """One connection to the leader; verbs are done one at a time, in a worker thread."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        config: RuntimeConfig,
        place: Place,
        board: ReportBoard,
        signals: Signals,
        make: Callable[[], OwnMemory | PodPart],
    ) -> None:
        self._reader, self._writer, self._board, self._signals = reader, writer, board, signals
        self._hello = Hello(rank=place.rank, config=config_digest(config))
        self._loop = asyncio.get_running_loop()
        self._rank = Rank(make, self._progress)
        self._work: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """From hello to farewell. Raises EngineLost."""
        self._say(self._hello)
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                order = await self._order()
                if order.farewell:
                    log.info("The leader has said farewell.")
                    return
                if order.refused:
                    raise EngineLost(order.refused)
                if order.verb:
                    self._begin(order.verb, order)
        finally:
            beating.cancel()
            if self._watching:
                self._watching.cancel()

    async def close(self) -> None:
        """End what this rank has started for an engine that spans pods."""
        if isinstance(part := self._rank.engine, PodPart):
            await part.close()

    async def _order(self) -> Order:
        try:
            text = await asyncio.wait_for(self._reader.readline(), SILENT_SECONDS)
            if text:
                return Order.model_validate_json(text)
        except TimeoutError:
            raise EngineLost(f"The leader of this group has said nothing for {SILENT_SECONDS:.0f} s.") from None
        except (OSError, ValueError) as error:
            raise EngineLost(f"The connection to the leader of this group broke: {error}.") from error
        raise EngineLost("The leader of this group is gone: its process has ended.")

    def _begin(self, verb: Verb, order: Order) -> None:
        task = asyncio.create_task(self._do(verb, order))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _do(self, verb: Verb, order: Order) -> None:
        """One verb. A failure is the leader's to judge: its report is that of the group."""
        if verb in PHASES and verb is not Verb.SERVE:
            self._board.update(phase=PHASES[verb])
        try:
            answer = await in_worker_thread(lambda: self._rank.do(verb, order.arguments))
        except Exception as error:
            log.warning("%s failed: %s", verb, error, exc_info=error)
            self._say(Word(done=verb, failure=failure_of(error)))
            return
        if verb is Verb.SERVE:
            self._board.update(phase=PHASES[verb])
        if verb is Verb.LOAD and isinstance(part := self._rank.engine, PodPart):
            self._watching = asyncio.create_task(leave_when_lost(part.until_lost, self._board))
        self._board.touch()
        self._say(Word(done=verb, answer=answer))

    def _progress(self) -> None:
        """Called from the worker thread."""
        self._board.touch()
        self._loop.call_soon_threadsafe(self._say, Word(moved=True))

    def _say(self, message: Hello | Word) -> None:
        say(self._writer, message)

    def tell_signals(self) -> None:
        """Live, and say what was asked of this pod."""
        self._say(Word(closing=self._signals.closing, stopping=self._signals.stop.is_set()))

    async def _beat(self) -> None:
        """Every two seconds; processes of an engine tell nothing while they start and work, so they are looked at."""
        before = pulse()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.tell_signals()
            if (now := await asyncio.to_thread(pulse)) != before:
                before = now
                self._progress()


class Rank:
    """The verbs of one rank, on an engine of its own. They block: call them in a worker thread.

    `make` makes the engine when it is to be loaded; `progress` hears when something moved.
    """

    def __init__(self, make: Callable[[], OwnMemory | PodPart], progress: Progress) -> None:
        self._make, self._progress = make, progress
        self.engine: OwnMemory | PodPart | None = None

    def do(self, verb: Verb, arguments: Sequence[Any]) -> Any:
        """The answer as plain data. Raises what the engine raises."""
        if self.engine is None:
            self.engine = self._make()
        if isinstance(self.engine, PodPart):
            return self._start(self.engine, verb, arguments)
        return self._do(self.engine, verb, arguments)

    def _start(self, part: PodPart, verb: Verb, arguments: Sequence[Any]) -> None:
        """All but the start is the business of the leader's engine, which reaches these processes itself."""
        if verb is Verb.LOAD:
            part.join(Meeting(*arguments), self._progress)

    def _do(self, engine: OwnMemory, verb: Verb, arguments: Sequence[Any]) -> Any:
        match verb:
            case Verb.LOAD:
                engine.load(self._progress)
            case Verb.PROFILE | Verb.MEMORY:
                found = engine.profile() if verb is Verb.PROFILE else engine.memory()
                return found.free, found.total
            case Verb.BLOCK_BYTES:
                return engine.block_bytes()
            case Verb.ALLOCATE:
                engine.allocate(*arguments)
            case Verb.PLAN:
                prompt, decode = (tuple(Bucket(*each) for each in phase) for phase in arguments)
                engine.use_plan(BucketPlan(prompt, decode))
            case Verb.WARM:
                engine.warm(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case Verb.CAPTURE:
                return engine.capture(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case Verb.SAMPLER:
                engine.warm_sampler(arguments[0], self._progress)
            case Verb.DEFRAGMENTER:
                return engine.warm_defragmenter(self._progress)
            case Verb.SERVE:
                engine.start_serving()
        return None
