"""Calls to all workers of one engine, from the start-up thread or from the event loop.

Every call has a deadline. After a missed deadline the engine counts as lost (docs/internals/vllm.md, Deadlines). The
answers of all ranks are combined: a bucket is complete when every rank has it, and its size is the size on the largest
rank. With data parallelism, ranks are numbered across all engine cores, from the first rank of the first core. This
module also reports how a process ended, because vLLM reports only that it died.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, wait
from pathlib import Path
from signal import Signals
from typing import Any, NotRequired, TypedDict

from gaudi_runtime.engines.vllm.cores import CoresTimedOut, EngineCores, exit_codes
from gaudi_runtime.errors import EngineLost, RankFailed

LOOK_SECONDS = 0.5


class BucketOutcome(TypedDict):
    """The outcome of a call for one bucket, on one of vLLM's ranks or on all ranks.

    `bytes` is the device memory that the bucket took. `out_of_memory` is the error if the device is out of memory.
    `ran_as` is set if the bucket ran as another bucket or did not run. It is the reason why the bucket is cold.
    """

    bytes: int
    graph: bool
    out_of_memory: str | None
    ran_as: NotRequired[str]


class ErrorNote:
    """A file in which one of vLLM's ranks writes an error for the leader, because the rank's answer may never arrive.

    A rank that runs out of memory within a forward answers immediately. But vLLM returns the answers of all ranks
    together, and the other ranks wait for the failed rank in a collective. `runtime_pid` is the leader's process id.
    """

    def __init__(self, runtime_pid: int, folder: str | None = None) -> None:
        self._file = Path(folder or tempfile.gettempdir()) / f"gaudi-runtime-{runtime_pid}-rank"

    def write(self, rank: int, reason: str) -> None:
        """Write the error of this rank. It replaces an earlier note of any rank."""
        self._file.write_text(f"rank {rank} reported that {reason}", encoding="utf-8")

    def read(self) -> str | None:
        """Return the last note; None if no rank has written a note."""
        return self._file.read_text(encoding="utf-8") if self._file.exists() else None

    def remove(self) -> None:
        """Remove the note, because an earlier process with the same process id may have written it."""
        self._file.unlink(missing_ok=True)


class Ranks:
    """Calls to all ranks of `engine`, which is vLLM's AsyncLLM.

    `loop` is the event loop that serves; vLLM's sockets belong to it. A call from a thread checks every `poll_seconds`
    whether the engine has died. `note` is the file in which ranks write errors. `cores` is the number of engine cores
    (spec.parallelism.data).
    """

    def __init__(
        self,
        engine: Any,
        loop: asyncio.AbstractEventLoop,
        poll_seconds: float = LOOK_SECONDS,
        note: ErrorNote | None = None,
        cores: int = 1,
    ) -> None:
        """Create the calls. Raises EngineUnsupported if this release of vLLM cannot call each of several cores."""
        self._cores = EngineCores(engine, cores)
        self._engine, self._loop, self._poll_seconds = engine, loop, poll_seconds
        self._note = note or ErrorNote(os.getpid())

    def call(self, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        """Call all workers from a thread; `deadline` is in seconds. Raises RankFailed, or EngineLost without answer."""
        call = describe_call(verb, *arguments)
        # Run the call on the event loop, because vLLM's sockets belong to that loop.
        future = asyncio.run_coroutine_threadsafe(self.call_async(verb, *arguments, deadline=deadline), self._loop)
        try:
            while wait([future], self._poll_seconds).not_done:
                # A dead worker never answers, so raise EngineLost instead of waiting until the deadline.
                if self._engine.errored:
                    raise dead_engine_error(self._engine, f"during the call {call}")
            return future.result()
        except CancelledError:
            raise EngineLost(f"The event loop ended during the call {call} to vLLM.") from None
        finally:
            future.cancel()

    async def call_async(self, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        """Call all workers on the event loop. `deadline` is in seconds. Raises RankFailed or EngineLost."""
        answers = await self.call_cores(verb, *arguments, deadline=deadline)
        return [answer for core in answers for answer in core]

    async def call_cores(self, verb: str, *arguments: Any, deadline: float) -> list[list[Any]]:
        """Call all workers like `call_async`, and return the answers grouped by engine core and rank."""
        call = describe_call(verb, *arguments)
        try:
            answers = await self._cores.call("gaudi", (verb, list(arguments)), deadline)
        except CoresTimedOut as error:
            note = self._note_clause()
            raise EngineLost(f"{error.subject} did not answer the call {call} within {deadline:.0f} s{note}.") from None
        except Exception as error:  # an error of vLLM: our own errors come as answers
            if self._engine.errored:
                raise dead_engine_error(self._engine, f"during the call {call}") from error
            raise EngineLost(f"The call {call} to vLLM failed: {type(error).__name__}: {error}") from error
        self._note.remove()  # all ranks have answered, so no rank waits for the failed one
        return unwrap_answers(answers, verb)

    @property
    def note(self) -> str | None:
        """The note that a rank has written since the last call that all ranks answered."""
        return self._note.read()

    def _note_clause(self) -> str:
        note = self._note.read()
        return f": {note}. The other ranks wait for this rank" if note else ""


def describe_call(verb: str, *arguments: Any) -> str:
    """Return a call to vLLM's ranks as text, such as "warm prompt (1, 128, 0)"."""
    return " ".join([verb, *(str(tuple(value)) if isinstance(value, list) else str(value) for value in arguments)])


def unwrap_answers(core_answers: Sequence[Sequence[dict[str, Any]]], verb: str) -> list[list[Any]]:
    """Return the answers by core and rank. Raises RankFailed for the first failed rank."""
    if not all(core_answers):
        raise EngineLost(f"No rank of vLLM answered the call {verb}.")
    for rank, answer in enumerate(answer for core in core_answers for answer in core):
        if "answer" not in answer:
            raise RankFailed(str(answer["reason"]), f"Rank {rank} failed during the call {verb}: {answer['message']}")
    return [[answer["answer"] for answer in core] for core in core_answers]


def combine_outcomes(outcomes: Sequence[BucketOutcome]) -> BucketOutcome:
    """Combine the outcomes of all ranks: the largest size, a graph only if all ranks have one, and the first reason."""
    memory_errors = [outcome["out_of_memory"] for outcome in outcomes if outcome["out_of_memory"]]
    reasons = [outcome["ran_as"] for outcome in outcomes if "ran_as" in outcome]
    combined: BucketOutcome = {
        "bytes": max(outcome["bytes"] for outcome in outcomes),
        "graph": all(outcome["graph"] for outcome in outcomes),
        "out_of_memory": memory_errors[0] if memory_errors else None,
    }
    return {**combined, "ran_as": reasons[0]} if reasons else combined


def combine_degradations(answers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return the degradations of all ranks without duplicates."""
    return tuple(dict.fromkeys(sentence for answer in answers for sentence in answer["degradations"]))


def smallest_value(answers: Sequence[dict[str, Any]], name: str) -> int:
    """Return the smallest value with this name in the answers of vLLM's ranks."""
    return min(int(answer[name]) for answer in answers)


def largest_value(answers: Sequence[dict[str, Any]], name: str) -> int:
    """Return the largest value with this name in the answers of vLLM's ranks."""
    return max(int(answer[name]) for answer in answers)


LIKELY = {
    Signals.SIGKILL: "most often because memory ran out: give the pod more memory",
    Signals.SIGILL: "because this processor lacks an instruction that vLLM uses: try another model.dtype",
    Signals.SIGBUS: "most often because shared memory ran out: raise pod.sharedMemorySize",
}


def dead_engine_error(engine: Any, when: str, note: str | None = None) -> EngineLost:
    """Return the error for a call to an engine that has died. `when` is a phrase such as "while it served".

    `engine` is vLLM's AsyncLLM. `note` is the note that a rank wrote before the process ended.
    """
    note_clause = f" ({note})" if note else ""
    return EngineLost(f"A process of vLLM died {when}: {_describe_exit(exit_codes(engine))}{note_clause}.")


def dead_ranks_error(executor: Any) -> EngineLost:
    """Return the error for dead ranks in a pod that is not the leader; `executor` is vLLM's MultiprocExecutor."""
    codes = {worker.proc.name: worker.proc.exitcode or 0 for worker in executor.workers}
    return EngineLost(f"A process of vLLM died in this pod: {_describe_exit(codes)}.")


def _describe_exit(codes: Mapping[str, int]) -> str:
    # Name the first process with a nonzero exit code, because a core exits by itself after its worker died. Name all
    # processes with the same code: if one of several cores dies, vLLM kills the other cores, and the codes do not show
    # which core was the first.
    code = next((exit_code for exit_code in codes.values() if exit_code), 0)
    names = " and ".join(name for name, exit_code in codes.items() if exit_code == code)
    if code < 0:
        signal = Signals(-code)
        verb = "were" if " and " in names else "was"
        return f"{names} {verb} ended by {signal.name}, {LIKELY.get(signal, 'and the log has the reason')}"
    if code > 0:
        return f"{names} ended with exit code {code}, and the log has the reason"
    return "the log has the reason"
