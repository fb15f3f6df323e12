"""ModelRunner, which does all device work. Its methods are called one after the other, in one thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

import torch

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.kv_blocks import most_context_blocks
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import GRAPH_MODES, DeviceMemory, Progress, SamplingParams
from gaudi_runtime.engines.torch import sampler
from gaudi_runtime.engines.torch.buffers import Geometry, KVCache, buffer_bytes, empty_cache, padding_block
from gaudi_runtime.engines.torch.checkpoint import (
    Checkpoint,
    check_architecture,
    load_network,
    open_checkpoint,
)
from gaudi_runtime.engines.torch.devices import Device, open_device
from gaudi_runtime.engines.torch.graphs import GraphTable
from gaudi_runtime.engines.torch.model import Network, read_geometry
from gaudi_runtime.engines.torch.scheduler import Batch
from gaudi_runtime.errors import DeviceOutOfMemory, PlanImpossible
from gaudi_runtime.process.worker import run_into_future, start_in_daemon_thread
from gaudi_runtime.warmup.schedule import SAMPLER_RUNS, SWAP_SIZES, warmup_swap_sizes

T = TypeVar("T")


class ModelRunner:
    """The weights, the cache and the graphs of one model on one device."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.checkpoint: Checkpoint
        self.geometry: Geometry
        self.graphs: GraphTable
        self.device: Device
        self.captures_graphs = config.engine.execution_mode in GRAPH_MODES
        self._config = config
        self._network: Network = None
        self.cache: KVCache = []

    def load(self, progress: Progress) -> None:
        """Open the device and load the checkpoint. Raises a RuntimeStartError."""
        self.device = open_device(self._config.engine)
        self.checkpoint = open_checkpoint(self._config.model.path)
        check_architecture(self.checkpoint.config)
        self._network = load_network(self.checkpoint, self._config.model.dtype, self.device.torch_device)
        progress()
        limits = self._config.limits
        self.geometry = read_geometry(self._network, limits.block_size, limits.contiguous_paged_attention)
        self._check_length(limits)
        # `parameters()` lists tied weights only once, so the sum counts their memory only once.
        weight_bytes = sum(weight.nbytes for weight in self._network.parameters())
        self.device.adapt_to_model(weight_bytes)
        try:
            self.device.reserve(weight_bytes)
        except DeviceOutOfMemory as error:
            raise PlanImpossible(f"the weights do not fit the device: {error}") from error

    @torch.inference_mode()
    def profile(self) -> DeviceMemory:
        """Run the largest prompt with padding only and return the memory that is left free."""
        # Use a cache of one block, because the size of the real cache depends on the result of this profile.
        bucket, cache = self._largest_prompt(), empty_cache(self.geometry, 1, self.device.torch_device)
        graphs = GraphTable(self.device, self._network, cache, self.geometry)
        nbytes = buffer_bytes(self.geometry, BucketPhase.PROMPT, bucket)
        try:
            return self.device.profile(lambda: graphs.dry_run(BucketPhase.PROMPT, bucket), nbytes)
        except DeviceOutOfMemory as error:
            raise PlanImpossible(f"a prompt of {bucket.query_len} tokens does not fit the device: {error}") from error

    @torch.inference_mode()
    def allocate(self, kv_blocks: int) -> None:
        """Allocate the cache. Raises DeviceOutOfMemory."""
        nbytes = kv_blocks * self.geometry.block_bytes
        self.device.reserve(nbytes)
        try:
            self.cache = empty_cache(self.geometry, kv_blocks, self.device.torch_device)
        except RuntimeError as error:
            self.device.release(nbytes)
            if self.device.is_out_of_memory(error):
                raise DeviceOutOfMemory(f"the device has no memory left for {kv_blocks} KV blocks: {error}") from error
            raise
        self.graphs = GraphTable(self.device, self._network, self.cache, self.geometry)

    def is_warm(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Return whether a batch of this bucket needs no compile. In modes with graphs, it must have a graph."""
        graphs = self.graphs
        return graphs.is_captured(phase, bucket) if self.captures_graphs else graphs.is_compiled(phase, bucket)

    @torch.inference_mode()
    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Sample from dummy logits twice with each sampler setting."""
        shape = (batch_size, self.geometry.vocabulary_size)
        logits = torch.zeros(shape, dtype=torch.float32, device=self.device.torch_device)
        for run in SAMPLER_RUNS:
            params = SamplingParams(temperature=run.temperature, top_p=run.top_p, top_k=run.top_k)
            rows = [(params, 0.5)] * batch_size
            sampler.choose_tokens(logits, sampler.batch_settings(rows, batch_size, self.device.torch_device))
            progress()
        self.device.synchronize()

    @torch.inference_mode()
    def warm_defragmenter(self, progress: Progress) -> None:
        """Run the block moves of every size."""
        # Copy the padding block onto itself, because this changes no block of a sequence.
        padding_id = padding_block(self.cache, self.geometry)
        for size in warmup_swap_sizes():
            self._copy_blocks([padding_id] * size, [padding_id] * size)
            progress()
        self.device.synchronize()

    @torch.inference_mode()
    def execute(self, batch: Batch, bucket: Bucket) -> list[int]:
        """Run a batch in its bucket and return one token per row. Ignore the tokens of rows that do not sample."""
        logits = self.graphs.run(batch.phase, bucket, batch.rows)
        sequences = [row.sequence for row in batch.rows]
        sampling_rows = [
            (sequence.sampling, sampler.random_number(sequence.seed, sequence.generated_count))
            for sequence in sequences
        ]
        settings = sampler.batch_settings(sampling_rows, bucket.batch_size, self.device.torch_device)
        # Reading the tokens waits for the device; no other line of a step does. Cut the list on the host, because on a
        # card each length would be a new shape and need a compile.
        return list(sampler.choose_tokens(logits, settings).tolist()[: len(batch.rows)])

    @torch.inference_mode()
    def move_blocks(self, moves: dict[int, int]) -> None:
        """Copy KV blocks from old ids to new ids. `moves` has at most SWAP_SIZES[-1] entries."""
        # Pad the moves to one of the sizes that warm-up has compiled.
        size = next(size for size in SWAP_SIZES if size >= len(moves))
        padding_ids = [padding_block(self.cache, self.geometry)] * (size - len(moves))
        self._copy_blocks([*moves.keys(), *padding_ids], [*moves.values(), *padding_ids])

    def _copy_blocks(self, sources: list[int], targets: list[int]) -> None:
        device = self.device.torch_device
        source, target = torch.tensor(sources, device=device), torch.tensor(targets, device=device)
        for layer in self.cache:
            for tensor in layer:
                blocks = tensor.view(-1, self.geometry.block_size, *tensor.shape[1:])
                blocks.index_copy_(0, target, blocks.index_select(0, source))

    def _largest_prompt(self) -> Bucket:
        limits = self._config.limits
        query_len = min(limits.max_num_batched_tokens, limits.max_model_len)
        batch_size = min(limits.max_num_prefill_seqs, limits.max_num_batched_tokens // query_len)
        return Bucket(batch_size, query_len, most_context_blocks(limits) if limits.prefix_caching else 0)

    def _check_length(self, limits: Limits) -> None:
        longest = getattr(self.checkpoint.config, "max_position_embeddings", limits.max_model_len)
        if limits.max_model_len > longest:
            raise PlanImpossible(
                f"limits.maxModelLen is {limits.max_model_len}, but the model supports at most {longest} tokens. "
                "Lower maxModelLen."
            )


class DeviceThread:
    """The thread that does all device work of a model runner, one job after the other."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended = start_in_daemon_thread(self._run, "torch-device")

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result or raise its exception. It blocks: do not call it on the event loop."""
        return self._submit(work).result()

    async def call_async(self, work: Callable[[], T]) -> T:
        """Run `work` in the device thread without blocking the event loop, and return its result."""
        return await asyncio.wrap_future(self._submit(work))

    async def close(self) -> None:
        """End the thread after all submitted work is done."""
        self._jobs.put(None)
        await asyncio.wrap_future(self._ended)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        outcome: Future[T] = Future()

        def run_job() -> None:
            # Skip the step if its request was cancelled before the step's turn.
            if outcome.set_running_or_notify_cancel():
                run_into_future(outcome, work)

        self._jobs.put(run_job)
        return outcome

    def _run(self) -> None:
        while job := self._jobs.get():
            job()
