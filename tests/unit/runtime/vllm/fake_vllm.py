"""Stands for vLLM's AsyncLLM where only its calls and its death matter; tests/vllm has the real one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Answers = list[dict[str, Any]]


class EngineDeadError(Exception):
    """What vLLM raises once its core is dead."""


class FakeVllm:
    """`reply` answers a verb and its arguments; every call is kept in `calls`."""

    def __init__(self, reply: Callable[..., Awaitable[Answers]]) -> None:
        self.errored = False
        self.calls: list[tuple[str, list[Any]]] = []
        self.asked = asyncio.Event()
        self.ended = False
        self._reply = reply

    async def collective_rpc(self, method: str, *, args: tuple[str, list[Any]]) -> Answers:
        """As vLLM's: one answer of each rank. Never with a timeout of vLLM's own."""
        verb, arguments = args
        assert method == "gaudi"
        self.calls.append((verb, arguments))
        self.asked.set()
        return await self._reply(verb, *arguments)

    def shutdown(self, timeout: float) -> None:
        """As vLLM's: its processes are gone afterwards."""
        self.ended = True


async def never(*_: Any) -> Answers:
    """Hangs until it is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError


async def echo(*said: Any) -> Answers:
    """Two ranks that answer what they were asked."""
    return [{"answer": list(said)}, {"answer": list(said)}]
