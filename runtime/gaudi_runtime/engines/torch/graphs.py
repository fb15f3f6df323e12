"""GraphTable: what is compiled and captured, per bucket, and how a batch runs with or without a graph."""

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
    fill,
    padding_block,
)
from gaudi_runtime.engines.torch.devices import Device, Step
from gaudi_runtime.engines.torch.model import Network, forward
from gaudi_runtime.engines.torch.scheduler import Work
from gaudi_runtime.errors import DeviceOutOfMemory

Key = tuple[BucketPhase, Bucket]


@dataclass(frozen=True)
class Graph:
    """A captured bucket: its static buffers and the replay that works on them."""

    buffers: Buffers
    replay: Step


class GraphTable:
    """Compiled forwards and captured graphs of one model and cache. Not for several threads."""

    def __init__(self, device: Device, network: Network, cache: KVCache, geometry: Geometry) -> None:
        self.compiling = False
        self._device = device
        self._network = network
        self._cache = cache
        self._geometry = geometry
        self._padding = padding_block(cache, geometry)
        self._compiled: dict[Key, Callable[..., None]] = {}
        self._graphs: dict[Key, Graph] = {}

    def is_compiled(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Whether the shape has run before."""
        return (phase, bucket) in self._compiled

    def is_captured(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Whether the shape has a graph."""
        return (phase, bucket) in self._graphs

    def dry_run(self, phase: BucketPhase, bucket: Bucket) -> None:
        """A forward over padding, without compiling anything."""
        forward(*self._arguments(phase, self._buffers(phase, bucket)))

    @torch.inference_mode()
    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile the shape by a forward over padding. Raises DeviceOutOfMemory."""
        with self._naming_out_of_memory(phase, bucket):
            self._run(phase, bucket, self._buffers(phase, bucket))
            # A card says that it is out of memory when the work ends, not when it is queued.
            self._device.synchronize()

    @torch.inference_mode()
    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Allocate the bucket's static buffers, capture, and return the bytes that the device has less now.

        Raises DeviceOutOfMemory, and then holds nothing of the bucket.
        """
        before, nbytes = self._device.memory().free, buffer_bytes(self._geometry, phase, bucket)
        self._device.reserve(nbytes)
        try:
            if not self.is_compiled(phase, bucket):
                self.warm(phase, bucket)
            with self._naming_out_of_memory(phase, bucket):
                buffers = self._buffers(phase, bucket)
                step = partial(self._compiled[phase, bucket], *self._arguments(phase, buffers))
                self._graphs[phase, bucket] = Graph(buffers, self._device.capture(step))
        except BaseException:
            # Whatever it was, the ledger must not count buffers that are gone with it.
            self._device.release(nbytes)
            raise
        return max(0, before - self._device.memory().free)

    def run(self, phase: BucketPhase, bucket: Bucket, works: tuple[Work, ...]) -> torch.Tensor:
        """Logits (bucket rows, vocabulary) of a batch padded to the bucket; valid until the bucket runs again."""
        # A graph knows addresses, not tensors: a batch is copied into the buffers that it was captured with.
        if graph := self._graphs.get((phase, bucket)):
            fill(graph.buffers, phase, works, self._geometry, self._padding)
            graph.replay()
            return graph.buffers.logits
        buffers = self._buffers(phase, bucket)
        fill(buffers, phase, works, self._geometry, self._padding)
        self._run(phase, bucket, buffers)
        return buffers.logits

    @contextmanager
    def _naming_out_of_memory(self, phase: BucketPhase, bucket: Bucket) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._device.is_out_of_memory(error):
                raise
            raise DeviceOutOfMemory(f"{phase} bucket {tuple(bucket)} found no room: {error}") from error

    def _buffers(self, phase: BucketPhase, bucket: Bucket) -> Buffers:
        return empty_buffers(self._geometry, phase, bucket, self._device.torch_device)

    def _arguments(self, phase: BucketPhase, buffers: Buffers) -> tuple[Network, KVCache, Buffers, bool]:
        return self._network, self._cache, buffers, phase is BucketPhase.PROMPT

    def _run(self, phase: BucketPhase, bucket: Bucket, buffers: Buffers) -> None:
        """A forward without a graph; the first one of a shape compiles it."""
        if compiled := self._compiled.get((phase, bucket)):
            compiled(*self._arguments(phase, buffers))
            return
        # A name of its own for each bucket, by which logs and profiles tell the compiled forwards apart.
        compiled = self._device.specialize(forward, f"{phase}_" + "_".join(map(str, bucket)))
        # Read by the event loop: a loop that waits for a compile does not hang.
        self.compiling = True
        try:
            compiled(*self._arguments(phase, buffers))
        finally:
            self.compiling = False
        self._compiled[phase, bucket] = compiled
