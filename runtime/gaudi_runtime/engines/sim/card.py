"""The memory and speed of a simulated card, taken from the card catalog or only from the script."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.sim.script import SimScript
from gaudi_runtime.errors import DeviceOutOfMemory
from gaudi_runtime.units import GIB

RECIPE_SHARE = 23 / 66
"""Warm-up time of an 8B model in BF16 with cached recipes, divided by that without (docs/internals/memory.md, Time)."""
DEFAULT_MEMORY = 128 * GIB


@dataclass(frozen=True)
class PhaseCost:
    """The costs of one phase on a simulated card: compile and capture seconds of a bucket, and graph bytes per unit."""

    compile_seconds: float
    capture_seconds: float
    graph_bytes: float


@dataclass(frozen=True)
class SimCard:
    """A simulated card. Sizes are in bytes, speeds in tokens per second (0: no delay), times in simulated seconds."""

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

    def scripted_cost(self, phase: BucketPhase) -> PhaseCost:
        """Return the cost of one phase."""
        return self.prompt if phase is BucketPhase.PROMPT else self.decode

    def graph_bytes(self, phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
        """Return the bytes of the graph of one bucket; `block_size` is in tokens per KV block."""
        return int(self.scripted_cost(phase).graph_bytes * bucket_weight(phase, bucket, block_size))


def imaginary_card(memory: int = DEFAULT_MEMORY) -> SimCard:
    """Return an imaginary card without delays. Each of its sizes is a round share of `memory` bytes."""
    # With a memory of 128 GiB, the weights take 16 GiB, a KV block 16 MiB, and a graph 1 MiB per token or sequence.
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


def apply_script(card: SimCard, script: SimScript) -> SimCard:
    """Return the simulated card with the values of the script. Values that the script does not set stay unchanged."""

    def scripted_or_default(value: float | None, own: float) -> float:
        # `value or own` would be wrong, because the script may set a value to 0.
        return own if value is None else value

    def cost(own: PhaseCost, graph_bytes: float | None) -> PhaseCost:
        return PhaseCost(
            scripted_or_default(script.compile_seconds, own.compile_seconds),
            scripted_or_default(script.capture_seconds, own.capture_seconds),
            scripted_or_default(graph_bytes, own.graph_bytes),
        )

    return SimCard(
        name=card.name,
        model=card.model,
        memory=int(scripted_or_default(script.device_memory_bytes, card.memory)),
        weights=int(scripted_or_default(script.weight_bytes, card.weights)),
        workspace=int(scripted_or_default(script.workspace_bytes, card.workspace)),
        block=int(scripted_or_default(script.block_bytes, card.block)),
        prompt=cost(card.prompt, script.graph_bytes_per_token),
        decode=cost(card.decode, script.graph_bytes_per_sequence),
        prompt_speed=scripted_or_default(script.prompt_tokens_per_second, card.prompt_speed),
        answer_speed=scripted_or_default(script.tokens_per_second, card.answer_speed),
    )


class SimMemory:
    """The memory counter of a simulated card. It counts the used part of `total` bytes and allocates nothing.

    All amounts are in bytes.
    """

    def __init__(self, total: int) -> None:
        self._total, self._used = total, 0

    def reserve(self, size: int) -> None:
        """Count `size` bytes as used. Raises DeviceOutOfMemory if fewer bytes are free."""
        if self._used + size > self._total:
            raise DeviceOutOfMemory(f"{size} bytes are needed, but only {self._total - self._used} bytes are free")
        self._used += size

    def current_memory(self) -> DeviceMemory:
        """Return free and total bytes."""
        return DeviceMemory(free=self._total - self._used, total=self._total)


class SimClock:
    """The clock of a simulated card. A simulated second takes `scale` real seconds of sleep.

    Tests pass a `sleep` that only advances a clock of the test.
    """

    def __init__(self, scale: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._scale, self._sleep = scale, sleep

    def wait_blocking(self, seconds: float) -> None:
        """Sleep for this many simulated seconds in the start-up thread."""
        # Skip the sleep for 0 seconds. Even `sleep(0)` yields the processor, and a warm-up would call it for each of
        # thousands of buckets.
        if seconds:
            self._sleep(seconds * self._scale)

    async def wait(self, seconds: float) -> None:
        """Wait this many simulated seconds on the event loop; 0 only yields to other tasks."""
        await asyncio.sleep(seconds * self._scale)
