"""SimCard: the numbers of a simulated card, its memory and its time, from a described card or from the script alone."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, weight
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.sim.script import SimScript
from gaudi_runtime.errors import DeviceOutOfMemory
from gaudi_runtime.units import GIB

RECIPE_SHARE = 23 / 66
"""Warm-up of an 8B model in BF16 with its recipes cached, of that without (docs/how-to/recipe-cache.md)."""
DEFAULT_MEMORY = 128 * GIB


@dataclass(frozen=True)
class PhaseCost:
    """Seconds to compile one bucket and to capture one graph; bytes of a graph per unit of weight (bucket.weight)."""

    compile_seconds: float
    capture_seconds: float
    graph_bytes: float


@dataclass(frozen=True)
class SimCard:
    """Sizes in bytes, speeds in tokens per second (0 is without delay), times in simulated seconds."""

    name: str
    model: str
    memory: int
    weights: int
    workspace: int
    block: int
    prompt: PhaseCost
    decode: PhaseCost
    prompt_speed: float = 0.0
    answer_speed: float = 0.0

    def cost(self, phase: BucketPhase) -> PhaseCost:
        """What one phase costs."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode

    def graph_bytes(self, phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
        """Bytes of the graph of one bucket; `block_size` in tokens per KV block."""
        return int(self.cost(phase).graph_bytes * weight(phase, bucket, block_size))


def imaginary_card(memory: int = DEFAULT_MEMORY) -> SimCard:
    """A card of nobody with `memory` bytes: no delays, and sizes that are round shares of it."""
    # Of 128 GiB: weights of 16 GiB, KV blocks of 16 MiB, graphs of 1 MiB per token or sequence.
    graph = PhaseCost(0, 0, memory / 131_072)
    return SimCard(
        name="of this script",
        model="none",
        memory=memory,
        weights=memory // 8,
        workspace=0,
        block=max(1, memory // 8192),
        prompt=graph,
        decode=graph,
    )


def with_script(card: SimCard, script: SimScript) -> SimCard:
    """The card with every value that the script gives in place of its own."""

    def given(value: float | None, own: float) -> float:
        # Not `value or own`: a script may well say 0.
        return own if value is None else value

    def cost(own: PhaseCost, graph_bytes: float | None) -> PhaseCost:
        return PhaseCost(
            given(script.compile_seconds, own.compile_seconds),
            given(script.capture_seconds, own.capture_seconds),
            given(graph_bytes, own.graph_bytes),
        )

    return SimCard(
        name=card.name,
        model=card.model,
        memory=int(given(script.device_memory_bytes, card.memory)),
        weights=int(given(script.weight_bytes, card.weights)),
        workspace=int(given(script.workspace_bytes, card.workspace)),
        block=int(given(script.block_bytes, card.block)),
        prompt=cost(card.prompt, script.graph_bytes_per_token),
        decode=cost(card.decode, script.graph_bytes_per_sequence),
        prompt_speed=given(script.prompt_tokens_per_second, card.prompt_speed),
        answer_speed=given(script.tokens_per_second, card.answer_speed),
    )


class SimMemory:
    """`total` bytes, of which some are used: they are only counted. All amounts in bytes."""

    def __init__(self, total: int) -> None:
        self._total, self._used = total, 0

    def use(self, size: int) -> None:
        """Take `size` bytes. Raises DeviceOutOfMemory when they are not free."""
        if self._used + size > self._total:
            raise DeviceOutOfMemory(f"{size} bytes wanted, {self._total - self._used} are free")
        self._used += size

    def now(self) -> DeviceMemory:
        """Free and total."""
        return DeviceMemory(free=self._total - self._used, total=self._total)


class SimClock:
    """A simulated second is `scale` real ones, asleep; tests give a `sleep` that only moves a clock of their own."""

    def __init__(self, scale: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._scale, self._sleep = scale, sleep

    def spend(self, seconds: float) -> None:
        """Let so many simulated seconds pass in the start-up thread."""
        # Even a sleep of 0 gives the processor away, and a warm-up of thousands of buckets would do so at each.
        if seconds:
            self._sleep(seconds * self._scale)

    async def wait(self, seconds: float) -> None:
        """The same on the event loop; 0 only lets others have a turn."""
        await asyncio.sleep(seconds * self._scale)
