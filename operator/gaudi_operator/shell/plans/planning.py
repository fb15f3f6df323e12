"""The planner, which computes plans one at a time in a separate process (plan_worker.py), with limits.

If a decision needs a plan, the reconcile ends after its gates are written. The question waits in the planner's queue,
and the answer wakes the resource. Namespaces take turns, so that a tenant with many expensive resources delays other
tenants by at most one question. If a question exceeds the limits, the answer is a refusal. Refusals are cached like
other answers, so the question is not retried until the spec changes. A new leader has an empty cache and tries each
question once.
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

from gaudi_operator.core.plan_answers import (
    AnswerNotComputed,
    AnyPlanQuestion,
    CachedRefusal,
    PlanAnswers,
    PlanTooExpensive,
)
from gaudi_operator.retry_delays import Backoff
from gaudi_operator.shell.plans.plan_worker import (
    ANSWER,
    IMPOSSIBLE,
    MOST_ANSWER,
    NO_MEMORY,
    READY,
    answer_adapter,
    encode_frame,
)
from gaudi_operator.shell.watching.store import Key
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.units import format_bytes

KNOWN_BYTES = 32 * 2**20
"""The maximum bytes of cached answers. Each of thousands of resources has two or three answers."""

START_SECONDS = 60.0
WALL_FACTOR = 20.0
"""The wall-clock limit of a question, as a multiple of its CPU time limit. Other processes may need the CPU too.

A process that has not answered within this limit is hung.
"""

TRIES = 2
"""The tries of a question if its process ends below its limits, for example because of memory pressure on the node."""

log = logging.getLogger(__name__)


class PendingQuestion(NamedTuple):
    """A question in the queue of the planner: the resource, the question, and the callback after the answer."""

    key: Key
    question: AnyPlanQuestion
    wake: Callable[[Key], None]


class QuestionQueue:
    """The queue of plan questions. Namespaces take turns, and the queue has at most one question per resource."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[Key, PendingQuestion]] = OrderedDict()

    def add(self, pending: PendingQuestion) -> None:
        """Queue a question, which replaces an older question of the same resource."""
        self._waiting.setdefault(pending.key.namespace, OrderedDict())[pending.key] = pending

    def pop(self) -> PendingQuestion | None:
        """Remove and return the oldest question of the next namespace; None if the queue is empty."""
        if not self._waiting:
            return None
        namespace, questions = self._waiting.popitem(last=False)
        _, pending = questions.popitem(last=False)
        if questions:
            self._waiting[namespace] = questions
        return pending


class WorkerFailed(Exception):
    """An error of the planner: the worker process ended, did not answer in time, or sent an invalid answer.

    The message is the end of a sentence about the plan.
    """


class Planner:
    """The planner, which answers one plan question at a time. Use as an async context manager."""

    def __init__(self, max_bytes: int, cpu_seconds: float) -> None:
        """Create a planner. The process may use `max_bytes` of memory, and `cpu_seconds` of CPU time per question."""
        self.answers = PlanAnswers(KNOWN_BYTES)
        self._max_bytes, self._cpu_seconds = max_bytes, cpu_seconds
        self._queue = QuestionQueue()
        self._current: PendingQuestion | None = None
        self._question_added = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start to answer questions."""
        self._task = asyncio.create_task(self._answer_questions(), name="plans")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop immediately, and end the worker process."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._kill_worker()

    def queue_question(self, key: Key, question: AnyPlanQuestion, wake: Callable[[Key], None]) -> None:
        """Queue the question of a resource. `wake` is called with `key` after the question is answered."""
        pending = PendingQuestion(key, question, wake)
        if pending != self._current:
            self._queue.add(pending)
            self._question_added.set()

    async def _answer_questions(self) -> None:
        backoff = Backoff(0.25, 30.0)
        while True:
            self._question_added.clear()
            self._current = self._queue.pop()
            if self._current is None:
                # Start the worker process while the queue is empty, so that the first question of a new leader has no
                # delay.
                await self._ensure_worker_runs(backoff)
                await self._question_added.wait()
                continue
            if not self._has_answer(self._current.question):
                try:
                    self.answers.store(self._current.question, await self._compute_answer(self._current, backoff))
                except Exception:
                    # Log the error and continue with the next question. The resource will submit the failed question
                    # again.
                    log.exception("Computing a plan failed because of a defect of the operator.")
                    await asyncio.sleep(backoff.next())
            pending, self._current = self._current, None
            pending.wake(pending.key)

    def _has_answer(self, question: AnyPlanQuestion) -> bool:
        """Return True if the answer is already cached. Another resource may have had the same question."""
        try:
            self.answers.get(question)
        except AnswerNotComputed:
            return False
        except (PlanImpossible, PlanTooExpensive):
            pass
        return True

    async def _compute_answer(self, pending: PendingQuestion, backoff: Backoff) -> Any:
        """Return the answer of the worker process, or a refusal if the worker process gives no answer."""
        for tries_left in reversed(range(TRIES)):
            await self._ensure_worker_runs(backoff)
            try:
                return await self._request_answer(pending.question)
            except PlanTooExpensive as error:
                refusal = error
            except WorkerFailed as error:
                await self._kill_worker()
                refusal = PlanTooExpensive(str(error))
                if tries_left:
                    continue
            resource = f"{pending.key.namespace}/{pending.key.name}"
            log.warning("The computation of a plan %s and was stopped.", refusal, extra={"resource": resource})
            return CachedRefusal(PlanTooExpensive, refusal.args)
        raise AssertionError

    async def _request_answer(self, question: AnyPlanQuestion) -> Any:
        process = self._process
        assert process is not None  # noqa: S101 - _ensure_worker_runs() has started it
        assert process.stdin is not None  # noqa: S101 - _start_worker() has opened a pipe
        try:
            async with asyncio.timeout(WALL_FACTOR * self._cpu_seconds):
                process.stdin.write(encode_frame(pickle.dumps(question)))
                await process.stdin.drain()
                content = await self._read_frame(process)
                return _parse_answer(question, content)
        except (OSError, EOFError):
            exit_code = await process.wait()
            self._process = None
            if exit_code == -signal.SIGPROF:
                raise PlanTooExpensive(f"took more than {self._cpu_seconds:g} s of processor time") from None
            raise WorkerFailed(f"ended its process with code {exit_code}") from None
        except TimeoutError:
            raise WorkerFailed(f"did not end within {WALL_FACTOR * self._cpu_seconds:g} s") from None
        except MemoryError:
            await self._kill_worker()
            raise PlanTooExpensive(f"took more than {format_bytes(self._max_bytes)} of memory") from None

    async def _ensure_worker_runs(self, backoff: Backoff) -> None:
        """Start the worker process if it is not running, and retry until it is ready."""
        while self._process is None:
            try:
                await self._start_worker()
                backoff.reset()
            except (OSError, EOFError, TimeoutError, WorkerFailed) as error:
                await self._kill_worker()
                reason = str(error) or type(error).__name__
                log.warning("The process that computes plans does not start (%s). The operator retries.", reason)
                await asyncio.sleep(backoff.next())

    async def _start_worker(self) -> None:
        limits = str(self._max_bytes), str(self._cpu_seconds)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gaudi_operator.shell.plans.plan_worker", *limits),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Start the worker in a new session. Ctrl-C then signals only the operator, and the operator ends the
            # worker.
            start_new_session=True,
        )
        async with asyncio.timeout(START_SECONDS):
            if await self._read_frame(self._process) != READY:
                raise WorkerFailed("it did not report that it is ready")

    async def _read_frame(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout  # noqa: S101 - _start_worker() has opened a pipe
        length = int.from_bytes(await process.stdout.readexactly(4), "big")
        if length > MOST_ANSWER:
            raise WorkerFailed(f"gave an answer of {format_bytes(length)}")
        return await process.stdout.readexactly(length)

    async def _kill_worker(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None


def _parse_answer(question: AnyPlanQuestion, content: bytes) -> Any:
    """Return the validated answer from the content of a frame, or the refusal."""
    kind, text = content[:1], content[1:]
    if content == NO_MEMORY:
        raise MemoryError
    try:
        if kind == ANSWER:
            return answer_adapter(question.kind).validate_json(text)
        if kind == IMPOSSIBLE:
            return CachedRefusal(PlanImpossible, tuple(answer_adapter(list[str | None]).validate_json(text)))
    except ValidationError as error:
        raise WorkerFailed(f"gave an answer that cannot be read ({error.error_count()} errors)") from error
    raise WorkerFailed(f"met a defect of the operator ({text.decode('utf-8', 'replace')})")
