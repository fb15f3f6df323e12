"""Calls to all workers of one engine, from the worker thread of start-up or from the event loop.

Every call has a deadline of ours, and after a deadline the engine is lost (docs/internals/vllm.md, Deadlines).
Answers are folded into one: a bucket counts when every rank has it, with the bytes of the largest. With data
parallelism the ranks are those of all engine cores, and are numbered from the first rank of the first core. How a
process ended is said in words here, for vLLM itself says only that it is dead.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, wait
from pathlib import Path
from signal import Signals
from typing import Any, NotRequired, TypedDict

from gaudi_runtime.engines.vllm.cores import Cores, SilentCores, exit_codes
from gaudi_runtime.errors import EngineLost, RankFailed

LOOK_SECONDS = 0.5


class Outcome(TypedDict):
    """One bucket. `bytes` is what the device has less than before; `out_of_memory` says why it could not be done.

    `ran_as` is there where it ran as another one, or not at all: why it is cold.
    """

    bytes: int
    graph: bool
    out_of_memory: str | None
    ran_as: NotRequired[str]


class Note:
    """What a rank leaves where the leader finds it, for its answer may never come.

    A rank that runs out of memory within a forward answers at once, but vLLM hands over the answers of all ranks
    together, and the others wait for it in a collective. `runtime_pid` is the leader's process.
    """

    def __init__(self, runtime_pid: int, folder: str | None = None) -> None:
        self._file = Path(folder or tempfile.gettempdir()) / f"gaudi-runtime-{runtime_pid}-rank"

    def leave(self, rank: int, why: str) -> None:
        """Of this rank; what another one has left is replaced."""
        self._file.write_text(f"rank {rank} says that {why}", encoding="utf-8")

    def read(self) -> str | None:
        """The last one; None where no rank has left any."""
        return self._file.read_text(encoding="utf-8") if self._file.exists() else None

    def remove(self) -> None:
        """A process of before may have had the same number."""
        self._file.unlink(missing_ok=True)


class Ranks:
    """`engine` is vLLM's AsyncLLM; `loop` the event loop that serves, to which vLLM's sockets belong.

    Every `look_seconds` a call from a thread looks whether the engine has died. `note` is what ranks may leave.
    `cores` is the number of engine cores (spec.parallelism.data).
    """

    def __init__(
        self,
        engine: Any,
        loop: asyncio.AbstractEventLoop,
        look_seconds: float = LOOK_SECONDS,
        note: Note | None = None,
        cores: int = 1,
    ) -> None:
        """Raises EngineUnsupported if a release of vLLM does not let each of several cores be called."""
        self._cores = Cores(engine, cores)
        self._engine, self._loop, self._look_seconds = engine, loop, look_seconds
        self._note = note or Note(os.getpid())

    def call(self, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        """One verb, from a thread; `deadline` in seconds. Raises RankFailed, or EngineLost for no answer."""
        what = said(verb, *arguments)
        # vLLM's sockets belong to the event loop.
        asked = asyncio.run_coroutine_threadsafe(self.ask(verb, *arguments, deadline=deadline), self._loop)
        try:
            while wait([asked], self._look_seconds).not_done:
                # A dead worker answers nothing.
                if self._engine.errored:
                    raise died(self._engine, f"while it was asked for {what}")
            return asked.result()
        except CancelledError:
            raise EngineLost(f"The event loop ended while vLLM was asked for {what}.") from None
        finally:
            asked.cancel()

    async def ask(self, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        """One verb, on the event loop; `deadline` in seconds. Raises RankFailed, or EngineLost for no answer."""
        answers = await self.ask_cores(verb, *arguments, deadline=deadline)
        return [each for core in answers for each in core]

    async def ask_cores(self, verb: str, *arguments: Any, deadline: float) -> list[list[Any]]:
        """Do as `ask`, and return the answers of each engine core's ranks."""
        what = said(verb, *arguments)
        try:
            answers = await self._cores.call("gaudi", (verb, list(arguments)), deadline)
        except SilentCores as silent:
            why = self._why_none()
            raise EngineLost(f"{silent.who} gave no answer to {what} within {deadline:.0f} s{why}.") from None
        except Exception as error:  # vLLM's own: ours come as answers
            if self._engine.errored:
                raise died(self._engine, f"while it was asked for {what}") from error
            raise EngineLost(f"vLLM cannot be asked for {what}: {type(error).__name__}: {error}") from error
        self._note.remove()  # all have answered, so nobody waits
        return unwrapped(answers, verb)

    @property
    def note(self) -> str | None:
        """What a rank has left since all answered the last time."""
        return self._note.read()

    def _why_none(self) -> str:
        left = self._note.read()
        return f": {left}, and the other ranks wait for it" if left else ""


def said(verb: str, *arguments: Any) -> str:
    """A call as people read it: warm prompt (1, 128, 0)."""
    return " ".join([verb, *(str(tuple(each)) if isinstance(each, list) else str(each) for each in arguments)])


def unwrapped(cores: Sequence[Sequence[dict[str, Any]]], verb: str) -> list[list[Any]]:
    """The answers of each core's ranks. Raises RankFailed with the first failure, naming its rank."""
    if not all(cores):
        raise EngineLost(f"No rank of vLLM answered {verb}.")
    for rank, each in enumerate(answer for core in cores for answer in core):
        if "answer" not in each:
            raise RankFailed(str(each["reason"]), f"Rank {rank} failed at {verb}: {each['message']}")
    return [[each["answer"] for each in core] for core in cores]


def fold_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """Bytes of the largest, a graph when all have one, the first reason of those that could not do it."""
    short = [each["out_of_memory"] for each in outcomes if each["out_of_memory"]]
    odd = [each["ran_as"] for each in outcomes if "ran_as" in each]
    folded: Outcome = {
        "bytes": max(each["bytes"] for each in outcomes),
        "graph": all(each["graph"] for each in outcomes),
        "out_of_memory": short[0] if short else None,
    }
    return {**folded, "ran_as": odd[0]} if odd else folded


def fold_sentences(answers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The degradations of all ranks, once each."""
    return tuple(dict.fromkeys(sentence for each in answers for sentence in each["degradations"]))


def least(answers: Sequence[dict[str, Any]], name: str) -> int:
    """The smallest figure of that name: what all ranks have."""
    return min(int(each[name]) for each in answers)


def most(answers: Sequence[dict[str, Any]], name: str) -> int:
    """The largest figure of that name: what the fullest rank has."""
    return max(int(each[name]) for each in answers)


LIKELY = {
    Signals.SIGKILL: "most often for want of memory: give the pod more",
    Signals.SIGILL: "this processor lacks an instruction that vLLM uses: try another model.dtype",
    Signals.SIGBUS: "most often for want of shared memory: raise pod.sharedMemorySize",
}


def died(engine: Any, when: str, note: str | None = None) -> EngineLost:
    """The error for an `engine` (vLLM's AsyncLLM) that is dead; `when` says at what, such as "while it served".

    `note` is what a rank has left before it ended.
    """
    why = f" ({note})" if note else ""
    return EngineLost(f"A process of vLLM died {when}: {_how(exit_codes(engine))}{why}.")


def died_here(executor: Any) -> EngineLost:
    """The error for the processes of a pod beside the leader's; `executor` is vLLM's MultiprocExecutor."""
    codes = {each.proc.name: each.proc.exitcode or 0 for each in executor.workers}
    return EngineLost(f"A process of vLLM died in this pod: {_how(codes)}.")


def _how(codes: Mapping[str, int]) -> str:
    # The first that failed: a core whose worker died ends by itself. With all that ended alike: when one of several
    # cores dies, vLLM kills the others, and nothing says which was first.
    code = next((code for code in codes.values() if code), 0)
    names = " and ".join(name for name, each in codes.items() if each == code)
    if code < 0:
        signal = Signals(-code)
        verb = "were" if " and " in names else "was"
        return f"{names} {verb} ended by {signal.name}, {LIKELY.get(signal, 'and its log says more')}"
    if code > 0:
        return f"{names} ended with exit code {code}, and its log says why"
    return "its log says more"
