"""The plan worker process: `python -m gaudi_operator.shell.plans.plan_worker BYTES SECONDS`.

planning.py starts the process. The process may use BYTES of address space and SECONDS of CPU time per question. The
kernel ends the process when the CPU time is used up. If memory runs out, the process reports this error and exits.

Each message is a frame: the length in four bytes, then the content. Questions are pickles from the parent process.
Answers are JSON and are validated against their type, because tenants control the content of plans.
"""

import os
import pickle
import resource
import signal
import sys
from functools import cache
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from gaudi_operator.core.plan_answers import AnyPlanQuestion, CachedRefusal, compute_answer

READY = b"ready"
NO_MEMORY = b"no memory"
ANSWER, IMPOSSIBLE, DEFECT = b"=", b"!", b"?"
"""The first byte of an answer: a value, the arguments of PlanImpossible, or an unexpected exception."""

MOST_ANSWER = 4 * 2**20
"""The maximum bytes of an answer frame. An answer about 20,000 cold shapes takes more than 1 MiB."""

NICENESS = 5
"""The niceness of the worker, so that the process with the watches has priority."""


@cache
def answer_adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the serializer for the plan worker's answers of the type `kind`."""
    return TypeAdapter(kind)


def encode_frame(content: bytes) -> bytes:
    """Return the frame of a message to or from the plan worker: the length of the content, then the content."""
    return len(content).to_bytes(4, "big") + content


def main(questions: BinaryIO, answers: BinaryIO, max_bytes: int, cpu_seconds: float) -> None:
    """Run the plan worker: answer questions until the pipe is closed."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))

    def send(content: bytes) -> None:
        answers.write(encode_frame(content))
        answers.flush()

    send(READY)
    while header := questions.read(4):
        question = pickle.loads(questions.read(int.from_bytes(header, "big")))  # noqa: S301 - our own
        # Limit the CPU time of each question. The signal has no handler, so the kernel ends the process even during a
        # call into C code.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        try:
            content = _compute_encoded_answer(question)
        except MemoryError:
            # Exit after an out-of-memory error. The memory is freed but fragmented, so the next question needs a new
            # process.
            send(NO_MEMORY)
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(content)


def _compute_encoded_answer(question: AnyPlanQuestion) -> bytes:
    try:
        answer = compute_answer(question)
    except MemoryError:
        raise
    except Exception as error:
        return DEFECT + f"{type(error).__name__}: {error}"[:1000].encode("utf-8", "replace")
    if isinstance(answer, CachedRefusal):
        return IMPOSSIBLE + answer_adapter(list[str | None]).dump_json(list(answer.arguments))
    return ANSWER + answer_adapter(question.kind).dump_json(answer)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]), float(sys.argv[2]))
