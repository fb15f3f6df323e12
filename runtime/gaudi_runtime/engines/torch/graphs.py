"""GraphTable: the compiled forwards and the captured graphs of buckets, and the execution of a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.torch.buffers import (
    Buffers,
    Geometry,
    KVCache,
    buffer_bytes,
    empty_buffers,
    fill_buffers,
    padding_block,
)
from gaudi_runtime.engines.torch.devices import Device, Step
from gaudi_runtime.engines.torch.model import Network, forward
from gaudi_runtime.engines.torch.scheduler import BatchRow
from gaudi_runtime.errors import DeviceOutOfMemory

Key = tuple[BucketPhase, Bucket]


@dataclass(frozen=True)
class CapturedGraph:
    """A captured bucket: its static buffers and the function that replays its graph."""

    buffers: Buffers
    replay: Step


class GraphTable:
    """The compiled forwards and captured graphs of one model and one cache. It is not thread-safe."""

    def __init__(self, device: Device, network: Network, cache: KVCache, geometry: Geometry) -> None:
        self.is_compiling = False
        self._device = device
        self._network = network
        self._cache = cache
        self._geometry = geometry
        self._padding_id = padding_block(cache, geometry)
        self._compiled_forwards: dict[Key, Callable[..., None]] = {}
        self._graphs: dict[Key, CapturedGraph] = {}

    def is_compiled(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Return whether the forward of this shape is compiled."""
        return (phase, bucket) in self._compiled_forwards

    def is_captured(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Return whether this shape has a captured graph."""
        return (phase, bucket) in self._graphs

    def dry_run(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Run a forward with padding only, without compiling it."""
        forward(*self._forward_arguments(phase, self._allocate_buffers(phase, bucket)))

    @torch.inference_mode()
    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile the shape by running a forward with padding only. Raises DeviceOutOfMemory."""
        with self._convert_out_of_memory(phase, bucket):
            self._run_forward(phase, bucket, self._allocate_buffers(phase, bucket))
            # Wait for the card. It reports that it is out of memory when the work ends, not when the work is queued.
            self._device.synchronize()

    @torch.inference_mode()
    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Allocate the bucket's static buffers, capture its graph, and return the device memory of both, in bytes.

        Raises DeviceOutOfMemory. In this case no memory of the bucket stays allocated.
        """
        free_before, nbytes = self._device.memory().free, buffer_bytes(self._geometry, phase, bucket)
        self._device.reserve(nbytes)
        try:
            if not self.is_compiled(phase, bucket):
                self.warm(phase, bucket)
            with self._convert_out_of_memory(phase, bucket):
                buffers = self._allocate_buffers(phase, bucket)
                step = partial(self._compiled_forwards[phase, bucket], *self._forward_arguments(phase, buffers))
                self._graphs[phase, bucket] = CapturedGraph(buffers, self._device.capture(step))
        except BaseException:
            # The buffers are freed after any error, so the memory budget must no longer count them.
            self._device.release(nbytes)
            raise
        return max(0, free_before - self._device.memory().free)

    def run(self, phase: BucketPhase, bucket: Bucket, rows: tuple[BatchRow, ...]) -> torch.Tensor:
        """Return the logits (bucket rows, vocabulary) of a batch. They are valid until the same bucket runs again."""
        # A graph reads fixed memory addresses, so the batch is copied into the buffers that were used for the capture.
        if graph := self._graphs.get((phase, bucket)):
            fill_buffers(graph.buffers, phase, rows, self._geometry, self._padding_id)
            graph.replay()
            return graph.buffers.logits
        buffers = self._allocate_buffers(phase, bucket)
        fill_buffers(buffers, phase, rows, self._geometry, self._padding_id)
        self._run_forward(phase, bucket, buffers)
        return buffers.logits

    @contextmanager
    def _convert_out_of_memory(self, phase: BucketPhase, bucket: Bucket) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._device.is_out_of_memory(error):
                raise
            raise DeviceOutOfMemory(f"no memory is left for {phase} bucket {tuple(bucket)}: {error}") from error

    def _allocate_buffers(self, phase: BucketPhase, bucket: Bucket) -> Buffers:
        return empty_buffers(self._geometry, phase, bucket, self._device.torch_device)

    def _forward_arguments(self, phase: BucketPhase, buffers: Buffers) -> tuple[Network, KVCache, Buffers, bool]:
        return self._network, self._cache, buffers, phase is BucketPhase.PROMPT

    def _run_forward(self, phase: BucketPhase, bucket: Bucket, buffers: Buffers) -> None:
        """Run a forward without a graph. The first forward of a shape compiles it."""
        if compiled := self._compiled_forwards.get((phase, bucket)):
            compiled(*self._forward_arguments(phase, buffers))
            return
        # Each bucket has its own name, so that logs and profiles distinguish the compiled forwards.
        compiled = self._device.specialize(forward, f"{phase}_" + "_".join(map(str, bucket)))
        # The event loop reads this flag. A serving loop that waits for a compile must not be reported as hung.
        self.is_compiling = True
        try:
            compiled(*self._forward_arguments(phase, buffers))
        finally:
            self.is_compiling = False
        self._compiled_forwards[phase, bucket] = compiled
