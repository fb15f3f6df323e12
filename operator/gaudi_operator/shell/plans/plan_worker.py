"""The process that works out plans: `python -m gaudi_operator.shell.plans.plan_worker BYTES SECONDS`.

planning.py starts it. It may take BYTES of address space in all and SECONDS of processor time a question. The kernel
ends it at once when the time is over, whatever it is doing; a lack of memory it tells by itself, and ends. Nobody else
is in this process.

A frame is its length in four bytes, and that many bytes. Questions come as pickles of our own values, from the process
that has made this one. Answers go back as JSON, which is held to their type: what a plan is made of is a stranger's.
"""

import os
import pickle
import resource
import signal
import sys
from functools import cache
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from gaudi_operator.core.answers import AnyPlanQuestion, Refusal, compute_answer

READY = b"ready"
NO_MEMORY = b"no memory"
ANSWER, IMPOSSIBLE, DEFECT = b"=", b"!", b"?"
"""First byte of an answer: it, the arguments of PlanImpossible, or an exception that nobody has expected."""

MOST_ANSWER = 4 * 2**20
"""Bytes of a frame that is an answer: of 20,000 cold shapes it is above one."""

NICENESS = 5
"""Whoever holds the watches goes first."""


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Writes and reads answers of a type."""
    return TypeAdapter(kind)


def frame(content: bytes) -> bytes:
    """As it goes through a pipe."""
    return len(content).to_bytes(4, "big") + content


def main(questions: BinaryIO, answers: BinaryIO, most_bytes: int, seconds: float) -> None:
    """Answer until there are no more questions."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))

    def tell(content: bytes) -> None:
        answers.write(frame(content))
        answers.flush()

    tell(READY)
    while head := questions.read(4):
        question = pickle.loads(questions.read(int.from_bytes(head, "big")))  # noqa: S301 - our own
        # The signal has no handler, so the kernel ends the process even in the midst of a call into C. This timer
        # counts the time of this process alone, and begins again with every question.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            content = _answer(question)
        except MemoryError:
            # What was in work is gone by now, but not the holes that it left: the next one starts anew.
            tell(NO_MEMORY)
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        tell(content)


def _answer(question: AnyPlanQuestion) -> bytes:
    try:
        found = compute_answer(question)
    except MemoryError:
        raise
    except Exception as error:
        return DEFECT + f"{type(error).__name__}: {error}"[:1000].encode("utf-8", "replace")
    if isinstance(found, Refusal):
        return IMPOSSIBLE + adapter(list[str | None]).dump_json(list(found.arguments))
    return ANSWER + adapter(question.kind).dump_json(found)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), float(sys.argv[2]))
