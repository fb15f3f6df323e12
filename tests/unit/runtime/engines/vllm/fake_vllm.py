"""Stands for vLLM's AsyncLLM where only its calls and its death matter; tests/vllm has the real one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Answers = list[dict[str, Any]]


class EngineDeadError(Exception):
    """What vLLM raises once its core is dead."""


Reply = Callable[..., Awaitable[Answers]]


class FakeVllm:
    """`reply` answers a verb and its arguments; every call is kept in `calls`.

    Each of `others` answers for one more engine core.
    """

    def __init__(self, reply: Reply, *others: Reply) -> None:
        self.errored = False
        self.engine_core = FakeClient((reply, *others))
        self.calls: list[tuple[str, list[Any]]] = []
        self.asked = asyncio.Event()
        self.ended = False
        self._reply = reply

    async def collective_rpc(self, method: str, *, args: tuple[str, list[Any]]) -> Answers:
        """As vLLM's: one answer of each rank of the first core. Never with a timeout of vLLM's own."""
        verb, arguments = args
        assert method == "gaudi"
        self.calls.append((verb, arguments))
        self.asked.set()
        return await self._reply(verb, *arguments)

    def shutdown(self, timeout: float) -> None:
        """As vLLM's: its processes are gone afterwards."""
        self.ended = True


class FakeClient:
    """Stands for vLLM's client of several engine cores (AsyncMPClient)."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.core_engines = [number.to_bytes(2, "little") for number in range(len(replies))]
        self._replies = dict(zip(self.core_engines, replies, strict=True))

    async def _call_utility_async(self, method: str, *args: Any, engine: bytes) -> Answers:
        """As vLLM's: the answer of one core. Never with a timeout of vLLM's own."""
        called, timeout, (verb, arguments), named = args
        assert (method, called, timeout, named) == ("collective_rpc", "gaudi", None, None)
        return await self._replies[engine](verb, *arguments)


async def never(*_: Any) -> Answers:
    """Hangs until it is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError


async def echo(*said: Any) -> Answers:
    """Two ranks that answer what they were asked."""
    return [{"answer": list(said)}, {"answer": list(said)}]
