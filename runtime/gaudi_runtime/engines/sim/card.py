"""SimCard: the numbers of a simulated card, from a described card and model or from the script alone."""

from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket, weight
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.sim.script import SimScript
from gaudi_runtime.units import GIB

RECIPE_SHARE = 23 / 66
"""Warm-up of an 8B model in BF16 with its recipes cached, of that without (docs/warmup.md, Recipe cache)."""


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


DEFAULT_MEMORY = 128 * GIB


def imaginary_card(memory: int = DEFAULT_MEMORY) -> SimCard:
    """A card of nobody with `memory` bytes: no delays, and sizes that are round shares of it.

    128 GiB have weights of 16 GiB, KV blocks of 16 MiB and graphs of 1 MiB per token or sequence.
    """
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

    def cost(own: PhaseCost, graph_bytes: float | None) -> PhaseCost:
        return PhaseCost(
            _given(script.compile_seconds, own.compile_seconds),
            _given(script.capture_seconds, own.capture_seconds),
            _given(graph_bytes, own.graph_bytes),
        )

    return SimCard(
        name=card.name,
        model=card.model,
        memory=int(_given(script.device_memory_bytes, card.memory)),
        weights=int(_given(script.weight_bytes, card.weights)),
        workspace=int(_given(script.workspace_bytes, card.workspace)),
        block=int(_given(script.block_bytes, card.block)),
        prompt=cost(card.prompt, script.graph_bytes_per_token),
        decode=cost(card.decode, script.graph_bytes_per_sequence),
        prompt_speed=_given(script.prompt_tokens_per_second, card.prompt_speed),
        answer_speed=_given(script.tokens_per_second, card.answer_speed),
    )


def _given(value: float | None, own: float) -> float:
    return own if value is None else value
