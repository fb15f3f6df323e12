"""The engine protocol: the narrow interface between the runtime's start-up and an engine.

The runtime controls order, budget, progress and stop. Each method of an engine runs one step. Methods up to
`warm_defragmenter` block. They are called from one worker thread, one at a time, before the first request.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase, VisionBucket
from gaudi_runtime.errors import EngineLost
from gaudi_runtime.memory_split import DeviceMemorySplit
from gaudi_runtime.traffic.serving_histogram import ServingHistogram

Progress = Callable[[], None]
"""Called by an engine after each bit of progress (bytes loaded, a step done), which restarts the stall clock."""


GRAPH_MODES = (ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE)
"""The execution modes with graphs to capture."""


@dataclass(frozen=True)
class DeviceMemory:
    """The device memory that an engine reports: free and total bytes."""

    free: int
    total: int


@dataclass(frozen=True)
class RecipeKey:
    """The key of an engine's compiled recipes: everything that recipes depend on, except their shapes.

    `software` names the release and the execution mode. `model` names the checkpoint and its revision. `dtype` names
    the formats of numbers and of the KV cache. `parallelism` says how the model is divided.
    """

    software: str
    card: str
    model: str
    dtype: str
    parallelism: str

    @property
    def digest(self) -> str:
        """Return 16 hex digits that identify this key in file names."""
        text = json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class EngineLoad:
    """The current load of an engine, in sequences and KV blocks."""

    running: int
    waiting: int
    used_blocks: int
    total_blocks: int


class Engine(Protocol):
    """The interface that every engine implements."""

    @property
    def counters(self) -> ServingHistogram:
        """The counters of served batches; available after `use_plan`."""

    @property
    def captures_graphs(self) -> bool:
        """Whether this execution mode has a second step for each bucket, which captures or executes the bucket."""

    def report_fields(self) -> Mapping[str, object]:
        """Return the report fields that only the engine can set, such as `simulated` without a real model."""

    def notes(self) -> tuple[str, ...]:
        """Return sentences for readers of the report, for example that no real model runs."""

    def load(self, progress: Progress) -> None:
        """Load the weights and the tokenizer. Raises a RuntimeStartError."""

    def recipe_key(self) -> RecipeKey | None:
        """Return the key of compiled recipes; None if no recipe is stored on disk. Available before `load`."""

    def use_plan(self, plan: BucketPlan) -> None:
        """Set the buckets that requests are padded to."""

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape by running a forward."""

    def execute(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Run a compiled shape once without a graph, so that the device allocates its workspace.

        Raises DeviceOutOfMemory.
        """

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture the graph of this shape and return its measured size in bytes.

        Raises DeviceOutOfMemory, GraphRefused if a limit in the spec excludes this graph, or ShapeRefused if the engine
        made no graph for another reason.
        """

    def use_warm_buckets(self, plan: BucketPlan) -> None:
        """Pad requests only to these warm buckets, because other buckets of the plan are cold."""

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run all sampler settings for one batch size."""

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps of every size. Return False if the engine has no defragmenter."""

    def memory(self) -> DeviceMemory:
        """Return the current device memory."""

    def start_serving(self) -> None:
        """Accept requests from now on, with counters at zero."""

    def application(self) -> AbstractAsyncContextManager[ASGIApp]:
        """Yield the OpenAI application; it is available while the block runs."""

    def collectors(self) -> Sequence[Collector]:
        """Return collectors of the engine's own metrics, for /metrics."""

    def max_pixels(self) -> int:
        """Return the most pixels that the images of one request may have; 0 if the model takes no images."""

    def ignored_fields(self) -> Mapping[str, object]:
        """Return the fields of requests that the engine does not apply, each with the value that changes nothing."""

    def current_load(self) -> EngineLoad:
        """Return the current load. This method must be fast, because it is called for every request."""

    def heartbeat_seconds(self) -> float:
        """Return the seconds since the last iteration of the engine's loop; 0 if the loop is idle or compiles."""

    async def close(self) -> None:
        """Free all resources. The caller has already drained or cancelled all requests."""


class ProfilingEngine(Engine, Protocol):
    """An engine that lets the runtime divide the memory of its device."""

    def profile(self) -> DeviceMemory:
        """Run the largest dummy forward and return the memory that is left free."""

    def block_bytes(self) -> int:
        """Return the bytes of one KV block in all layers of this rank."""

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the KV cache. Raises DeviceOutOfMemory."""


@runtime_checkable
class SupportsVision(Protocol):
    """An engine whose model may have a vision tower. The vision tower is warmed up first."""

    def vision_buckets(self) -> tuple[VisionBucket, ...]:
        """Return the buckets of the vision tower in warm-up order. They are available after `use_plan`."""

    def warm_vision(self, bucket: VisionBucket) -> int:
        """Run the vision tower once with a bucket and return the device memory that the run took, in bytes.

        Raises ShapeRefused or DeviceOutOfMemory. After DeviceOutOfMemory, no further bucket is run.
        """


@runtime_checkable
class DividesMemory(Protocol):
    """An engine that divides the memory and allocates the KV cache itself during `load`."""

    def split_and_blocks(self) -> tuple[DeviceMemorySplit, DeviceBlocks]:
        """Return the memory split and the allocated KV blocks."""


@runtime_checkable
class CanBeLost(Protocol):
    """An engine that consists of several processes. Any of these processes may end."""

    async def wait_until_lost(self) -> EngineLost:
        """Wait until this engine can no longer serve, and return the error."""
