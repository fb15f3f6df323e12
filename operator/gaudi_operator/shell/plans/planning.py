"""Plans are worked out in a process of their own (plan_worker.py): one at a time, within limits of memory and time.

A decision that needs to know of a plan says so and ends with its gates; the question waits here for its turn, and its
resource is woken when it is answered. Namespaces take turns, so that nobody who makes many expensive resources is in
the way of others for more than one question. A question that takes more than the limits is answered by a refusal, which
is kept like any answer: it is not tried again until the spec, and so the question, changes. A new leader knows none of
them and tries each once: that harms nobody, and a newer operator or wider limits may do better.
"""

import asyncio
import logging
import pickle
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from gaudi_operator.core.answers import AnyPlanQuestion, PlanAnswers, PlanTooExpensive, Refusal, Unanswered
from gaudi_operator.errors import Backoff
from gaudi_operator.shell.plans.plan_worker import ANSWER, IMPOSSIBLE, MOST_ANSWER, NO_MEMORY, READY, adapter, frame
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.units import size

KNOWN_BYTES = 32 * 2**20
"""Of answers that are kept: thousands of resources have two or three each."""

START_SECONDS = 60.0
WALL_FACTOR = 20.0
"""Seconds by the clock that a question may take for each of processor time, which others may need too. A process that
has not answered by then waits for something that does not come.
"""

TRIES = 2
"""Of a question in whose work the process ended by no limit of ours: a node that lacks memory may have killed it."""

log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """A question of a resource, and who is called with its key when the answer is known."""

    key: Key
    question: AnyPlanQuestion
    wake: Callable[[Key], None]


class Turns:
    """In which order questions are answered: namespaces take turns, and a resource has one question at a time."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[Key, Asked]] = OrderedDict()

    def add(self, asked: Asked) -> None:
        """Queue a question, in place of an older one of the same resource."""
        self._waiting.setdefault(asked.key.namespace, OrderedDict())[asked.key] = asked

    def next(self) -> Asked | None:
        """Take the oldest of the namespace whose turn it is; None when nobody waits."""
        if not self._waiting:
            return None
        namespace, waiting = self._waiting.popitem(last=False)
        _, asked = waiting.popitem(last=False)
        if waiting:
            self._waiting[namespace] = waiting
        return asked


class WorkerLost(Exception):
    """The process ended, or answers nothing that can be read; the message is the end of a sentence about the plan."""


class Planner:
    """Answers questions about plans, one after the other. Use as an async context manager."""

    def __init__(self, most_bytes: int, seconds: float) -> None:
        """`most_bytes` of address space for the whole process, `seconds` of processor time for each question."""
        self.answers = PlanAnswers(KNOWN_BYTES)
        self._most_bytes, self._seconds = most_bytes, seconds
        self._turns = Turns()
        self._at_work: Asked | None = None
        self._news = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to answer."""
        self._task = asyncio.create_task(self._work(), name="plans")
        return self

    async def __aexit__(self, *_: object) -> None:
        """End, whatever is in work."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._end()

    def ask(self, key: Key, question: AnyPlanQuestion, wake: Callable[[Key], None]) -> None:
        """Have the question of a resource answered, and call `wake` with its key then."""
        asked = Asked(key, question, wake)
        if asked != self._at_work:
            self._turns.add(asked)
            self._news.set()

    async def _work(self) -> None:
        backoff = Backoff(0.25, 30.0)
        while True:
            self._news.clear()
            self._at_work = self._turns.next()
            if self._at_work is None:
                # Started while nobody waits for it: the first question of a leader is answered at once.
                await self._warm(backoff)
                await self._news.wait()
                continue
            if not self._knows(self._at_work.question):
                try:
                    self.answers.keep(self._at_work.question, await self._answer(self._at_work, backoff))
                except Exception:
                    # Others wait behind it, and its resource asks again.
                    log.exception("A question about a plan failed by a defect of the operator.")
                    await asyncio.sleep(backoff.next())
            asked, self._at_work = self._at_work, None
            asked.wake(asked.key)

    def _knows(self, question: AnyPlanQuestion) -> bool:
        """Whether another resource has asked the same a moment ago."""
        try:
            self.answers.get(question)
        except Unanswered:
            return False
        except (PlanImpossible, PlanTooExpensive):
            pass
        return True

    async def _answer(self, asked: Asked, backoff: Backoff) -> Any:
        """The answer, or the refusal that stands for it."""
        for left in reversed(range(TRIES)):
            await self._warm(backoff)
            try:
                return await self._exchange(asked.question)
            except PlanTooExpensive as error:
                found = error
            except WorkerLost as error:
                await self._end()
                found = PlanTooExpensive(str(error))
                if left:
                    continue
            key = f"{asked.key.namespace}/{asked.key.name}"
            log.warning("The work on a plan %s, and was given up.", found, extra={"resource": key})
            return Refusal(PlanTooExpensive, found.args)
        raise AssertionError

    async def _exchange(self, question: AnyPlanQuestion) -> Any:
        process = self._process
        assert process is not None  # noqa: S101 - _warm() has started it
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        try:
            async with asyncio.timeout(WALL_FACTOR * self._seconds):
                process.stdin.write(frame(pickle.dumps(question)))
                await process.stdin.drain()
                content = await self._frame(process)
                return _read(question, content)
        except (OSError, EOFError):
            code = await process.wait()
            self._process = None
            if code == -signal.SIGPROF:
                raise PlanTooExpensive(f"took more than {self._seconds:g} s of processor time") from None
            raise WorkerLost(f"ended the process that did it with {code}") from None
        except TimeoutError:
            raise WorkerLost(f"was not done after {WALL_FACTOR * self._seconds:g} s") from None
        except MemoryError:
            await self._end()
            raise PlanTooExpensive(f"took more than {size(self._most_bytes)} of memory") from None

    async def _warm(self, backoff: Backoff) -> None:
        """Have a process that is ready, however long that takes."""
        while self._process is None:
            try:
                await self._start()
                backoff.reset()
            except (OSError, EOFError, TimeoutError, WorkerLost) as error:
                await self._end()
                why = str(error) or type(error).__name__
                log.warning("The process that works out plans does not start (%s); it is tried again.", why)
                await asyncio.sleep(backoff.next())

    async def _start(self) -> None:
        limits = str(self._most_bytes), str(self._seconds)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gaudi_operator.shell.plans.plan_worker", *limits),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # A Ctrl-C is for the operator alone, which ends this one.
            start_new_session=True,
        )
        async with asyncio.timeout(START_SECONDS):
            if await self._frame(self._process) != READY:
                raise WorkerLost("it says something else than that it is ready")

    async def _frame(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout  # noqa: S101 - a pipe was asked for
        length = int.from_bytes(await process.stdout.readexactly(4), "big")
        if length > MOST_ANSWER:
            raise WorkerLost(f"gave an answer of {size(length)}")
        return await process.stdout.readexactly(length)

    async def _end(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None


def _read(question: AnyPlanQuestion, content: bytes) -> Any:
    """The answer in a frame, held to its type; a refusal where it is one."""
    kind, text = content[:1], content[1:]
    if content == NO_MEMORY:
        raise MemoryError
    try:
        if kind == ANSWER:
            return adapter(question.kind).validate_json(text)
        if kind == IMPOSSIBLE:
            return Refusal(PlanImpossible, tuple(adapter(list[str | None]).validate_json(text)))
    except ValidationError as error:
        raise WorkerLost(f"gave an answer that cannot be read ({error.error_count()} errors)") from error
    raise WorkerLost(f"met a defect of the operator ({text.decode('utf-8', 'replace')})")
