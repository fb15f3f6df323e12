"""Calls to all workers of one engine, from the worker thread of start-up or from the event loop.

Every call has a deadline of ours. vLLM's own timeout leaves late answers in its queue, which the next call would take
for its own; so after a deadline the engine is lost (docs/vllm.md, Deadlines).
"""

import asyncio
from concurrent.futures import CancelledError, Future
from typing import Any

from gaudi_runtime.engines.vllm.death import died
from gaudi_runtime.engines.vllm.rank_answers import unwrapped
from gaudi_runtime.errors import EngineLost

LOOK_SECONDS = 0.5


class Ranks:
    """`engine` is vLLM's AsyncLLM; `loop` the event loop that serves, to which vLLM's sockets belong."""

    def __init__(self, engine: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._engine, self._loop = engine, loop

    def call(self, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        """One verb, from a thread; `deadline` in seconds. Raises RankFailed, or EngineLost for no answer."""
        asked = asyncio.run_coroutine_threadsafe(self.ask(verb, *arguments, deadline=deadline), self._loop)
        try:
            return self._answer(asked, said(verb, *arguments))
        finally:
            asked.cancel()

    async def ask(self, verb: str, *arguments: Any, deadline: float) -> list[Any]:
        """One verb, on the event loop; `deadline` in seconds. Raises RankFailed, or EngineLost for no answer."""
        what = said(verb, *arguments)
        call = self._engine.collective_rpc("gaudi", args=(verb, list(arguments)))
        try:
            answers = await asyncio.wait_for(call, deadline)
        except TimeoutError:
            raise EngineLost(f"vLLM gave no answer to {what} within {deadline:.0f} s.") from None
        except Exception as error:  # vLLM's own: ours come as answers
            if self._engine.errored:
                raise died(self._engine, f"while it was asked for {what}") from error
            raise EngineLost(f"vLLM cannot be asked for {what}: {type(error).__name__}: {error}") from error
        return unwrapped(answers, verb)

    def _answer(self, asked: "Future[list[Any]]", what: str) -> list[Any]:
        """A dead worker answers nothing, so death is looked for while waiting."""
        while True:
            try:
                return asked.result(LOOK_SECONDS)
            except TimeoutError:
                if asked.done():
                    raise
                self._raise_if_dead(what)
            except CancelledError:
                raise EngineLost(f"The event loop ended while vLLM was asked for {what}.") from None

    def _raise_if_dead(self, what: str) -> None:
        if self._engine.errored:
            raise died(self._engine, f"while it was asked for {what}")


def said(verb: str, *arguments: Any) -> str:
    """A call as people read it: warm prompt (1, 128, 0)."""
    return " ".join([verb, *(str(tuple(each)) if isinstance(each, list) else str(each) for each in arguments)])
