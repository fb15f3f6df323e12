"""What decisions ask about plans, and the answers, kept by their questions within bounds.

A spec may ask for hundreds of thousands of buckets, and whoever may make one may make many. So no decision works out a
plan: it asks a `Question`, and Answers either know the answer or raise Unanswered. The reconcile then does what needs
no plan, its gates, and runs again once somebody has answered (shell/plans/planning.py). Answers are small, whatever
the plan; those that refuse are kept like those that give.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any, ClassVar, Generic, TypeVar, cast

from gaudi_runtime.contract.bucketing import BucketPolicy
from gaudi_runtime.errors import PlanImpossible

T = TypeVar("T")
AnyQuestion = Any
"""A Question of any answer, which is a frozen dataclass."""


class PlanTooExpensive(Exception):
    """The work on a plan was given up; the message says what it took, as the end of a sentence."""


class Question(Generic[T]):
    """A frozen dataclass of our own values, which can be sent to another process, and how to answer it."""

    kind: ClassVar[Any]
    """Type of the answer: that of another process is held to it."""

    @property
    def size(self) -> int:
        """Bytes that the answer and the question take at most, but for long texts."""
        raise NotImplementedError

    def answer(self) -> T:
        """Work it out. Raises PlanImpossible with the planner's sentence."""
        raise NotImplementedError


class Unanswered(Exception):
    """A decision needs the answer to `question`, which nobody has worked out yet."""

    def __init__(self, question: AnyQuestion) -> None:
        """Nothing is asked by this alone."""
        super().__init__(question)
        self.question = question


@dataclass(frozen=True)
class Refusal:
    """Its arguments alone: the exception itself would keep everything that was in work when it was raised."""

    kind: type[Exception]
    arguments: tuple[Any, ...]

    def raise_it(self) -> None:
        """Raise it anew."""
        raise self.kind(*self.arguments)


class Answers:
    """Known answers, up to `most_bytes` of them; those that nobody has asked for the longest go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[AnyQuestion, Any] = OrderedDict()
        self._lock = Lock()

    def get(self, question: Question[T]) -> T:
        """The answer. Raises Unanswered while there is none, and a refusal as often as it is asked for: PlanImpossible,
        PlanTooExpensive.
        """
        key = _brief(question)
        with self._lock:
            if key not in self._kept:
                raise Unanswered(question)
            self._kept.move_to_end(key)
            found = self._kept[key]
        if isinstance(found, Refusal):
            found.raise_it()
        return cast("T", found)

    def keep(self, question: AnyQuestion, answer: Any) -> None:
        """Know an answer, or a Refusal, from now on."""
        key = _brief(question)
        with self._lock:
            if key not in self._kept:
                self._bytes += question.size
            self._kept[key] = answer
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[0].size


class AtOnce(Answers):
    """Works out in this process what it is asked: for commands and other places where a plan may take its time."""

    def get(self, question: Question[T]) -> T:
        """The answer. Raises PlanImpossible."""
        try:
            return super().get(question)
        except Unanswered:
            self.keep(question, worked_out(question))
        return super().get(question)


def worked_out(question: Question[T]) -> T | Refusal:
    """The answer as it is kept."""
    try:
        return question.answer()
    except PlanImpossible as error:
        return Refusal(PlanImpossible, error.args)


AT_ONCE = AtOnce(16 * 2**20)


def _brief(question: AnyQuestion) -> AnyQuestion:
    """The question with digests for its long texts, which would take far more room than all answers."""
    values = {each.name: getattr(question, each.name) for each in fields(question)}
    policies = {name: _with_digests(each) for name, each in values.items() if isinstance(each, BucketPolicy)}
    return replace(question, **policies) if policies else question


def _with_digests(policy: BucketPolicy) -> BucketPolicy:
    changes: dict[str, Any] = {}
    if policy.file:
        changes["file"] = _digest(policy.file)
    if policy.optimal and policy.optimal.traffic:
        changes["optimal"] = policy.optimal.model_copy(update={"traffic": _digest(policy.optimal.traffic)})
    return policy.model_copy(update=changes) if changes else policy


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
