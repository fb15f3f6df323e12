"""ServingLoop: continuous batching. Every step runs in the device thread."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from functools import partial

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.engine_protocol.engine import EngineLoad, GenerationChunk, SamplingParams
from gaudi_runtime.engines.torch.block_manager import BlockManager
from gaudi_runtime.engines.torch.runner import DeviceThread, ModelRunner
from gaudi_runtime.engines.torch.scheduler import Batch, Scheduler, Sequence
from gaudi_runtime.engines.torch.tokenizer import Decode, Detokenizer
from gaudi_runtime.traffic.serving_histogram import ServingHistogram
from gaudi_runtime.warmup.schedule import SWAP_SIZES

log = logging.getLogger(__name__)

COMPACT_THRESHOLD = 32
"""The threshold of BlockManager.compact, in blocks."""


class Request:
    """A request in the torch engine's serving loop. `chunks` receives the chunks, or the exception that ended it."""

    def __init__(self, sequence: Sequence, detokenizer: Detokenizer, stop_tokens: frozenset[int]) -> None:
        self.sequence = sequence
        self.chunks: asyncio.Queue[GenerationChunk | Exception] = asyncio.Queue()
        self._detokenizer = detokenizer
        self._stop_tokens = frozenset() if sequence.sampling.ignore_eos else stop_tokens

    def append_token(self, token: int) -> GenerationChunk:
        """Append a token to the sequence and return its text. The last chunk has a finish reason."""
        self.sequence.tokens.append(token)
        if token in self._stop_tokens:
            return GenerationChunk(self._detokenizer.flush(), (token,), "stop")
        text = self._detokenizer.push(token)
        if not self._detokenizer.is_stopped and self.sequence.generated_count >= self.sequence.sampling.max_tokens:
            text += self._detokenizer.flush()
            return GenerationChunk(text, (token,), "stop" if self._detokenizer.is_stopped else "length")
        return GenerationChunk(text, (token,), "stop" if self._detokenizer.is_stopped else None)


class ServingLoop:
    """The serving loop of the torch engine: its requests, the scheduler, and the task that runs batches."""

    def __init__(
        self,
        runner: ModelRunner,
        thread: DeviceThread,
        plan: BucketPlan,
        limits: Limits,
        blocks: BlockManager,
        decode: Decode,
        histogram: ServingHistogram,
    ) -> None:
        self._runner = runner
        self._thread = thread
        self._limits = limits
        self._blocks = blocks
        self._decode = decode
        self._histogram = histogram
        self._scheduler = Scheduler(limits, blocks, lambda phase, shape: plan.find(phase, *shape) is not None)
        self._requests: dict[Sequence, Request] = {}
        self._task: asyncio.Task[None] | None = None
        self._last_iteration = 0.0

    async def stream(self, prompt: tuple[int, ...], sampling: SamplingParams) -> AsyncGenerator[GenerationChunk, None]:
        """Stream the chunks of one completion. If the caller closes the iterator, the request's blocks are freed."""
        request = self._submit(prompt, sampling)
        try:
            finished = False
            while not finished:
                chunk = await request.chunks.get()
                if isinstance(chunk, Exception):
                    raise chunk
                finished = chunk.finish_reason is not None
                yield chunk
        finally:
            self._remove_request(request)

    def current_load(self) -> EngineLoad:
        """Return the current numbers of sequences and KV blocks."""
        return EngineLoad(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting),
            used_blocks=self._blocks.used_count,
            total_blocks=self._blocks.total_count,
        )

    def heartbeat_seconds(self) -> float:
        """Return the seconds since the last iteration of the loop; 0 if the loop is idle or compiles."""
        if self._task is None or self._runner.graphs.is_compiling:
            return 0.0
        return time.monotonic() - self._last_iteration

    async def close(self) -> None:
        """Fail all requests with an error and wait for the current step."""
        self._fail(list(self._requests), RuntimeError("the engine is closed"))
        if self._task is not None:
            await self._task

    def _submit(self, prompt: tuple[int, ...], sampling: SamplingParams) -> Request:
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        sequence = Sequence(prompt, sampling, seed)
        detokenizer = Detokenizer(self._decode, sampling.stop)
        request = Request(sequence, detokenizer, self._runner.checkpoint.stop_tokens)
        self._requests[sequence] = request
        self._scheduler.add(sequence)
        # Start the loop with the first request and end it with the last one, so that an idle engine uses no processor
        # time.
        if self._task is None:
            self._last_iteration = time.monotonic()
            self._task = asyncio.create_task(self._serve(), name="torch-engine")
        return request

    def _remove_request(self, request: Request) -> None:
        self._requests.pop(request.sequence, None)
        self._scheduler.remove(request.sequence)

    async def _serve(self) -> None:
        """Run batches until there is no more work."""
        try:
            while batch := self._scheduler.next_batch():
                self._last_iteration = time.monotonic()
                await self._run_batch(batch)
                await self._defragment()
        except Exception as error:
            log.exception("The serving loop failed. The loop restarts with the next request.")
            self._fail(list(self._requests), error)
        finally:
            self._task = None

    async def _run_batch(self, batch: Batch) -> None:
        """Run one batch. If the batch fails, only the requests in it end with the error."""
        try:
            chunks = await self._execute_and_count(batch)
        except Exception as error:
            log.exception("A %s batch of %d sequences failed", batch.phase, len(batch.rows))
            self._fail([row.sequence for row in batch.rows], error)
        else:
            self._send_chunks(batch, chunks)

    async def _execute_and_count(self, batch: Batch) -> list[GenerationChunk | None]:
        """Run a batch on the device, and count the batch and the compilations during its step."""
        # Read the number of compilations from the device, because a failed guard may recompile even a warm bucket.
        bucket, old_count = self._histogram.count_batch(batch.phase, batch.shape), self._runner.device.compile_count()
        try:
            return await self._thread.call_async(partial(self._run_forward, batch, bucket))
        finally:
            if compiles := self._runner.device.compile_count() - old_count:
                self._histogram.count_compiles(batch.phase, bucket, compiles)

    def _run_forward(self, batch: Batch, bucket: Bucket) -> list[GenerationChunk | None]:
        """Run a forward in the device thread and return its tokens as chunks; None for a row without a new token."""
        tokens = self._runner.execute(batch, bucket)
        return [
            request.append_token(token) if row.is_sampled and (request := self._requests.get(row.sequence)) else None
            for row, token in zip(batch.rows, tokens, strict=True)
        ]

    def _send_chunks(self, batch: Batch, chunks: list[GenerationChunk | None]) -> None:
        """Send the chunks to their consumers. A finished sequence frees its blocks immediately."""
        for row, chunk in zip(batch.rows, chunks, strict=True):
            row.sequence.computed_count = row.start + len(row.tokens)
            # The request is missing if its consumer disconnected during the step.
            request = self._requests.get(row.sequence)
            if request is None or chunk is None:
                continue
            request.chunks.put_nowait(chunk)
            if chunk.finish_reason is not None:
                self._remove_request(request)

    def _fail(self, sequences: list[Sequence], error: Exception) -> None:
        for sequence in sequences:
            if request := self._requests.get(sequence):
                request.chunks.put_nowait(error)
                self._remove_request(request)

    async def _defragment(self) -> None:
        """Move KV blocks to lower ids if contiguous attention would otherwise read too many unused blocks."""
        # Contiguous attention reads all blocks up to the highest block in use, so a lower highest block makes it
        # faster. Other attention reads only the blocks of its sequences.
        if not self._limits.contiguous_paged_attention:
            return
        if moves := self._scheduler.compact(COMPACT_THRESHOLD, SWAP_SIZES[-1]):
            await self._thread.call_async(partial(self._runner.move_blocks, moves))
