"""A fake of vLLM's AsyncLLM for tests of calls and of a dead engine. tests/vllm has the real AsyncLLM."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

Answers = list[dict[str, Any]]


class EngineDeadError(Exception):
    """The error that vLLM raises after its engine core has died."""


Reply = Callable[..., Awaitable[Answers]]


class FakeVllm:
    """A fake AsyncLLM that records every call in `calls`.

    `reply` receives a verb and its arguments and returns the answer. Each entry of `others` answers for another engine
    core.
    """

    def __init__(self, reply: Reply, *others: Reply) -> None:
        self.errored = False
        self.model_config = SimpleNamespace(is_multimodal_model=False, get_diff_sampling_param=dict)
        self.engine_core = FakeClient((reply, *others))
        self.calls: list[tuple[str, list[Any]]] = []
        self.asked = asyncio.Event()
        self.ended = False
        self._reply = reply

    async def collective_rpc(self, method: str, *, args: tuple[str, list[Any]]) -> Answers:
        """Return one answer for each rank of the first core, as vLLM does. Callers must not use vLLM's timeout."""
        verb, arguments = args
        assert method == "gaudi"
        self.calls.append((verb, arguments))
        self.asked.set()
        return await self._reply(verb, *arguments)

    def shutdown(self, timeout: float) -> None:
        """Record the shutdown. vLLM's processes are gone afterwards."""
        self.ended = True


class FakeClient:
    """A fake of vLLM's client for several engine cores (AsyncMPClient)."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.core_engines = [number.to_bytes(2, "little") for number in range(len(replies))]
        self._replies = dict(zip(self.core_engines, replies, strict=True))

    async def _call_utility_async(self, method: str, *args: Any, engine: bytes) -> Answers:
        """Return the answer of one core, as vLLM does. Callers must not use vLLM's timeout."""
        called, timeout, (verb, arguments), named = args
        assert (method, called, timeout, named) == ("collective_rpc", "gaudi", None, None)
        return await self._replies[engine](verb, *arguments)


async def never(*_: Any) -> Answers:
    """Hang until cancelled."""
    await asyncio.Event().wait()
    raise AssertionError


async def echo(*said: Any) -> Answers:
    """Return the answers of two ranks. Each rank answers with the arguments."""
    return [{"answer": list(said)}, {"answer": list(said)}]
