"""The narrow interface between the orchestrator and an engine.

The orchestrator owns order, budget, progress and stop; an engine only does what one verb says. Verbs up to
`warm_defragmenter` block and are called from one worker thread, one at a time, before the first request.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase, VisionBucket
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.memory_split import Split
from gaudi_runtime.traffic.serving_histogram import ServingHistogram

Progress = Callable[[], None]
"""Called by an engine whenever something moved (bytes loaded, a step done): the stall clock restarts."""


GRAPH_MODES = (ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE)
"""The execution modes with graphs to capture."""


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes of device memory."""

    free: int
    total: int


@dataclass(frozen=True)
class RecipeKey:
    """What a compiled recipe depends on besides its shape: with another key it is of no use.

    `software` names the release and the execution mode, `model` the checkpoint and its revision, `dtype` the formats
    of numbers and of the KV cache, `parallelism` how the model is divided.
    """

    software: str
    card: str
    model: str
    dtype: str
    parallelism: str

    @property
    def digest(self) -> str:
        """16 hex digits that stand for the key in names of files."""
        text = json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen. temperature 0 is greedy; top_k 0 and top_p 1 switch those filters off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int = 16
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True)
class GenerationChunk:
    """A piece of one completion; `finish_reason` ("stop" or "length") is set on the last."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None = None


@dataclass(frozen=True)
class EngineLoad:
    """What the engine is doing now, in sequences and KV blocks."""

    running: int
    waiting: int
    used_blocks: int
    total_blocks: int


class ChatTokenizer(Protocol):
    """Text to tokens and back, with the checkpoint's own chat template."""

    @property
    def longest_token(self) -> int:
        """Most characters that one token can stand for."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain prompt."""

    def apply_chat_template(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """Token ids of a conversation up to the answer; ValueError when the template refuses it."""


class Engine(Protocol):
    """What the runtime needs from every engine."""

    @property
    def counters(self) -> ServingHistogram:
        """What serving met so far; there after `use_plan`."""

    @property
    def captures_graphs(self) -> bool:
        """Whether this execution mode has graphs to capture."""

    def report_fields(self) -> Mapping[str, object]:
        """Fields of the WarmupReport that the engine decides: `simulated` where there is no model behind it."""

    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of the report should know, such as that everything is simulated."""

    def load(self, progress: Progress) -> None:
        """Read weights and tokenizer. Raises a RuntimeStartError."""

    def recipe_key(self) -> RecipeKey | None:
        """What compiled recipes depend on, None where none outlives the process; known before `load`."""

    def use_plan(self, plan: BucketPlan) -> None:
        """Take the buckets that requests will be padded to."""

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape with a real forward."""

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture the graph of this shape and return its measured bytes.

        Raises DeviceOutOfMemory, ShapeRefused, or GraphRefused where the engine runs the shape without a graph.
        """

    def use_warm(self, plan: BucketPlan) -> None:
        """Pad requests to these buckets alone: the part of the plan that is warm, if some of it stayed cold."""

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run the sampler's settings for one batch size."""

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps of every size; False where the engine swaps none."""

    def memory(self) -> DeviceMemory:
        """Device memory now."""

    def start_serving(self) -> None:
        """From here on requests may come; the counters start at zero."""

    def load_now(self) -> EngineLoad:
        """Current load, cheap enough to be read on every request."""

    def heartbeat_seconds(self) -> float:
        """Seconds since the engine's loop last turned; 0 when idle or inside a compile."""

    async def close(self) -> None:
        """Free everything; running requests have been drained or cancelled before."""


class OwnMemory(Engine, Protocol):
    """An engine that lets the runtime divide the memory of its device."""

    def profile(self) -> DeviceMemory:
        """Run the largest dummy forward and return the memory that is free after it."""

    def block_bytes(self) -> int:
        """Bytes of one KV block over all layers of this rank."""

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the KV cache. Raises DeviceOutOfMemory."""


@runtime_checkable
class SeesImages(Protocol):
    """An engine whose model may have a vision tower, which is warmed up before all else."""

    def vision_buckets(self) -> tuple[VisionBucket, ...]:
        """What the tower is to be warmed with, in this order; known after `use_plan`."""

    def warm_vision(self, bucket: VisionBucket) -> int:
        """Run the tower once and return the bytes of device memory that this took.

        Raises ShapeRefused, or DeviceOutOfMemory, after which no further one is asked for.
        """


@runtime_checkable
class DividedMemory(Protocol):
    """An engine whose `load` has divided the memory and allocated the KV cache already."""

    def divided_memory(self) -> tuple[Split, DeviceBlocks]:
        """The split, and the KV blocks that were allocated."""


class TokenEngine(Engine, Protocol):
    """An engine that is handed tokens by our own OpenAI application (openai_api)."""

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The checkpoint's tokenizer; there after `load`."""

    def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> AsyncGenerator[GenerationChunk, None]:
        """Stream one completion; closing the generator cancels the request and frees its blocks."""

    def admissible(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """None when a request of this size can ever be served, otherwise the sentence that says why not."""


@runtime_checkable
class ServingEngine(Protocol):
    """An engine that brings its own OpenAI application."""

    def application(self) -> AbstractAsyncContextManager[ASGIApp]:
        """The application while the block runs."""

    def collectors(self) -> Sequence[Collector]:
        """Metrics of its own for /metrics."""


@runtime_checkable
class PartsCanDie(Protocol):
    """An engine that other processes are part of."""

    async def until_lost(self) -> EngineLost:
        """Returns when this engine can serve no more, with the sentence that says why."""
