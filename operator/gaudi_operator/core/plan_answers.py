"""Questions about plans, and a cache of their answers, which are computed outside of the reconcile.

A spec may request hundreds of thousands of buckets, and a tenant may create many specs. Therefore decisions compute no
plans. They pass a `PlanQuestion` to PlanAnswers, which returns the cached answer or raises AnswerNotComputed. After
this error, the reconcile writes only the gates, and runs again when the answer is computed (shell/plans/planning.py).
Answers are small even for large plans. Refusals are cached, too.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any, ClassVar, Generic, TypeVar, cast

from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.errors import PlanImpossible

T = TypeVar("T")
AnyPlanQuestion = Any
"""A PlanQuestion with any type of answer, which is always a frozen dataclass."""


class PlanTooExpensive(Exception):
    """The error that the computation of a plan exceeded its limits.

    The message states the used amount, as the end of a sentence.
    """


class PlanQuestion(Generic[T]):
    """A question about a plan. It is a frozen dataclass, and its code can answer the question in another process."""

    kind: ClassVar[Any]
    """The type of the answer. Answers from another process are validated against this type."""

    @property
    def size(self) -> int:
        """The maximum size of the question and its answer in bytes, without long texts."""
        raise NotImplementedError

    def answer(self) -> T:
        """Compute the answer. Raises PlanImpossible with the planner's message."""
        raise NotImplementedError


class AnswerNotComputed(Exception):
    """The error that the answer to `question` is needed but not computed yet."""

    def __init__(self, question: AnyPlanQuestion) -> None:
        """Store the question. The computation of the answer is not started."""
        super().__init__(question)
        self.question = question


@dataclass(frozen=True)
class CachedRefusal:
    """A cached refusal in place of a plan answer: the type and arguments of the exception.

    The traceback is not cached, because it would keep memory in use.
    """

    kind: type[Exception]
    arguments: tuple[Any, ...]

    def raise_error(self) -> None:
        """Raise the cached exception as a new exception."""
        raise self.kind(*self.arguments)


class PlanAnswers:
    """A cache of plan answers that uses up to `max_bytes`. The least recently used answers are evicted first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._answers: OrderedDict[AnyPlanQuestion, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, question: PlanQuestion[T]) -> T:
        """Return the cached answer.

        Raises AnswerNotComputed if no answer is cached. Raises PlanImpossible or PlanTooExpensive if the answer is a
        refusal.
        """
        key = _shorten_question(question)
        with self._lock:
            if key not in self._answers:
                raise AnswerNotComputed(question)
            self._answers.move_to_end(key)
            answer = self._answers[key]
        if isinstance(answer, CachedRefusal):
            answer.raise_error()
        return cast("T", answer)

    def store(self, question: AnyPlanQuestion, answer: Any) -> None:
        """Cache an answer or a Refusal."""
        key = _shorten_question(question)
        with self._lock:
            if key not in self._answers:
                self._used_bytes += question.size
            self._answers[key] = answer
            while self._used_bytes > self._max_bytes and len(self._answers) > 1:
                self._used_bytes -= self._answers.popitem(last=False)[0].size


class SynchronousAnswers(PlanAnswers):
    """Plan answers that are computed in this process when they are requested, for commands and tests."""

    def get(self, question: PlanQuestion[T]) -> T:
        """Return the answer. If the answer is not cached, compute it. Raises PlanImpossible."""
        try:
            return super().get(question)
        except AnswerNotComputed:
            self.store(question, compute_answer(question))
        return super().get(question)


def compute_answer(question: PlanQuestion[T]) -> T | CachedRefusal:
    """Return the plan answer to cache, which is a value or a Refusal."""
    try:
        return question.answer()
    except PlanImpossible as error:
        return CachedRefusal(PlanImpossible, error.args)


SYNCHRONOUS_ANSWERS = SynchronousAnswers(16 * 2**20)


def _shorten_question(question: AnyPlanQuestion) -> AnyPlanQuestion:
    """Return the question with digests in place of long texts. The texts would need more memory than all answers."""
    values = {field.name: getattr(question, field.name) for field in fields(question)}
    policies = {name: _digest_texts(value) for name, value in values.items() if isinstance(value, BucketPolicy)}
    return replace(question, **policies) if policies else question


def _digest_texts(policy: BucketPolicy) -> BucketPolicy:
    changes: dict[str, Any] = {}
    if policy.file:
        changes["file"] = _digest(policy.file)
    if policy.optimal and policy.optimal.traffic:
        changes["optimal"] = policy.optimal.model_copy(update={"traffic": _digest(policy.optimal.traffic)})
    return policy.model_copy(update=changes) if changes else policy


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
