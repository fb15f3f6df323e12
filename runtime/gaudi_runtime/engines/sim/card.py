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
"""Warm-up time of an 8B model in BF16 with cached recipes, divided by that without (docs/internals/warmup.md, Time)."""
DEFAULT_MEMORY = 128 * GIB


@dataclass(frozen=True)
class SimCardPhaseCost:
    """The costs of a phase on a card: seconds to compile and capture a bucket, and graph bytes per bucket weight."""

    compile_seconds: float
    capture_seconds: float
    bytes_per_weight: float


@dataclass(frozen=True)
class SimCard:
    """A simulated card. Sizes are in bytes, speeds in tokens per second (0: no delay), times in simulated seconds."""

    name: str
    model: str
    memory_bytes: int
    weight_bytes: int
    workspace_bytes: int
    block_bytes: int
    prompt_cost: SimCardPhaseCost
    decode_cost: SimCardPhaseCost
    prompt_speed: float = 0.0
    answer_speed: float = 0.0

    def scripted_cost(self, phase: BucketPhase) -> SimCardPhaseCost:
        """Return the cost of one phase."""
        return self.prompt_cost if phase is BucketPhase.PROMPT else self.decode_cost

    def graph_bytes(self, phase: BucketPhase, bucket: Bucket, block_size: int) -> int:
        """Return the bytes of the graph of one bucket; `block_size` is in tokens per KV block."""
        return int(self.scripted_cost(phase).bytes_per_weight * bucket_weight(phase, bucket, block_size))


def imaginary_sim_card(memory_bytes: int = DEFAULT_MEMORY) -> SimCard:
    """Return an imaginary card without delays. Each of its sizes is a round share of `memory_bytes`."""
    # With a memory of 128 GiB, the weights take 16 GiB, a KV block 16 MiB, and a graph 1 MiB per token or sequence.
    phase_cost = SimCardPhaseCost(0, 0, memory_bytes / 131_072)
    return SimCard(
        name="of this script",
        model="none",
        memory_bytes=memory_bytes,
        weight_bytes=memory_bytes // 8,
        workspace_bytes=0,
        block_bytes=max(1, memory_bytes // 8192),
        prompt_cost=phase_cost,
        decode_cost=phase_cost,
    )


def apply_script_to_sim_card(card: SimCard, script: SimScript) -> SimCard:
    """Return the simulated card with the values of the script. Values that the script does not set stay unchanged."""

    def scripted_or_default(value: float | None, default: float) -> float:
        # `value or default` would be wrong, because the script may set a value to 0.
        return default if value is None else value

    def cost(default: SimCardPhaseCost, bytes_per_weight: float | None) -> SimCardPhaseCost:
        return SimCardPhaseCost(
            scripted_or_default(script.compile_seconds, default.compile_seconds),
            scripted_or_default(script.capture_seconds, default.capture_seconds),
            scripted_or_default(bytes_per_weight, default.bytes_per_weight),
        )

    return SimCard(
        name=card.name,
        model=card.model,
        memory_bytes=int(scripted_or_default(script.device_memory_bytes, card.memory_bytes)),
        weight_bytes=int(scripted_or_default(script.weight_bytes, card.weight_bytes)),
        workspace_bytes=int(scripted_or_default(script.workspace_bytes, card.workspace_bytes)),
        block_bytes=int(scripted_or_default(script.block_bytes, card.block_bytes)),
        prompt_cost=cost(card.prompt_cost, script.graph_bytes_per_token),
        decode_cost=cost(card.decode_cost, script.graph_bytes_per_sequence),
        prompt_speed=scripted_or_default(script.prompt_tokens_per_second, card.prompt_speed),
        answer_speed=scripted_or_default(script.tokens_per_second, card.answer_speed),
    )


class SimCardMemory:
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


class SimCardClock:
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
