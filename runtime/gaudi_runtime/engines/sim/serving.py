"""The answers of the sim engine. It echoes each prompt at the card's speed and counts the plan's buckets."""

import asyncio
import codecs
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import EngineLoad
from gaudi_runtime.engines.sim.card import SimCard, SimCardClock
from gaudi_runtime.engines.sim.script import SimScript
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, make_padder
from gaudi_runtime.units import plural


@dataclass(eq=False)
class _SimSequence:
    """The place of a served sequence in the sim engine: its reserved KV blocks and the KV blocks that it uses now."""

    reserved_blocks: int
    turn: asyncio.Future[None]
    used_blocks: int = 0


class _SimScheduler:
    """The scheduler of the sim engine. It admits sequences in order of arrival while batch size and KV blocks allow.

    It is used only on the event loop.
    """

    def __init__(self, max_sequences: int, blocks: int) -> None:
        self.total_blocks, self._max_sequences = blocks, max_sequences
        self.running: set[_SimSequence] = set()
        self._waiting: deque[_SimSequence] = deque()

    def current_load(self) -> EngineLoad:
        """Return the number of admitted and of waiting sequences, and the number of reserved KV blocks."""
        reserved = sum(sequence.reserved_blocks for sequence in self.running)
        return EngineLoad(len(self.running), len(self._waiting), reserved, self.total_blocks)

    @asynccontextmanager
    async def reserve_place(self, blocks: int) -> AsyncIterator[_SimSequence]:
        """Reserve a place in the batch and `blocks` KV blocks until the context ends."""
        sequence = _SimSequence(blocks, asyncio.get_running_loop().create_future())
        self._waiting.append(sequence)
        self._start_next()
        try:
            await sequence.turn
            yield sequence
        finally:
            if sequence in self._waiting:
                self._waiting.remove(sequence)
            self.running.discard(sequence)
            self._start_next()

    def _start_next(self) -> None:
        while self._waiting and len(self.running) < self._max_sequences:
            # Later sequences never overtake the first sequence in the queue. Otherwise short prompts, which always fit,
            # would keep a long prompt waiting forever.
            if self.current_load().used_blocks + self._waiting[0].reserved_blocks > self.total_blocks:
                return
            sequence = self._waiting.popleft()
            self.running.add(sequence)
            # If the consumer has disconnected, the turn is already cancelled, and the consumer frees the place.
            if not sequence.turn.done():
                sequence.turn.set_result(None)


class SimServing:
    """The sim engine while it serves. `warm_shapes` contains the shapes that need no compile.

    It is used only on the event loop.
    """

    def __init__(
        self,
        script: SimScript,
        card: SimCard,
        clock: SimCardClock,
        limits: Limits,
        plan: BucketPlan,
        kv_blocks: int,
        warm_shapes: set[tuple[BucketPhase, Bucket]],
        fail_on_cold_shapes: bool,
    ) -> None:
        self._pad = make_padder(plan, limits, self._is_warm)
        self.counters = ServingHistogram(self._pad)
        self._script, self._card, self._clock = script, card, clock
        self._limits, self._warm_shapes = limits, warm_shapes
        self._fail_on_cold_shapes = fail_on_cold_shapes
        self._scheduler = _SimScheduler(limits.max_num_seqs, kv_blocks)
        self._request_count = 0

    async def stream(
        self, prompt: bytes, max_tokens: int, ignore_eos: bool
    ) -> AsyncGenerator[tuple[str, str | None], None]:
        """Stream the prompt back byte by byte. Yield the text of each token, and the finish reason with the last one.

        The answer ends after the last byte of the prompt, or after `max_tokens` with `ignore_eos`.
        """
        async with self._scheduler.reserve_place(self.block_count(len(prompt) + max_tokens)) as sequence:
            self._request_count += 1
            await self._prefill(sequence, len(prompt))
            decoder, finish_reason, position = codecs.getincrementaldecoder("utf-8")("replace"), None, 0
            while finish_reason is None:
                position += 1
                if position == self._script.fail_at_token:
                    raise RuntimeError(f"simulated by failAtToken={position}")
                await self._decode_step(sequence, len(prompt) + position)
                # The echo ends after the last byte of the prompt, where a real model would produce its stop token.
                if position == len(prompt) and not ignore_eos:
                    finish_reason = "stop"
                elif position == max_tokens:
                    finish_reason = "length"
                token = prompt[(position - 1) % len(prompt)]
                yield decoder.decode(bytes([token]), final=finish_reason is not None), finish_reason

    def longest_answer(self, prompt_tokens: int) -> int:
        """Return the most tokens of an answer, by the model's length and the KV cache. The result is at least 1."""
        cache_tokens = self._scheduler.total_blocks * self._limits.block_size
        return max(1, min(self._limits.max_model_len, cache_tokens) - prompt_tokens)

    def why_not_admissible(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """Return an error sentence if prompt and answer exceed the model's length or the whole KV cache; else None."""
        tokens = prompt_tokens + max_tokens
        if tokens > self._limits.max_model_len:
            return (
                f"{prompt_tokens} prompt tokens and {plural(max_tokens, 'token')} for the answer exceed the model's "
                f"maximum length of {self._limits.max_model_len} tokens. Shorten the prompt or lower max_tokens."
            )
        if self.block_count(tokens) > self._scheduler.total_blocks:
            return (
                f"{tokens} tokens of prompt and answer need more than the {self._scheduler.total_blocks} KV blocks of "
                "this server. Shorten the prompt or lower max_tokens."
            )
        return None

    def current_load(self) -> EngineLoad:
        """Return the current numbers of sequences and KV blocks."""
        return self._scheduler.current_load()

    def block_count(self, tokens: int) -> int:
        """Return the number of KV blocks that this many tokens need."""
        return -(-tokens // self._limits.block_size)

    async def _prefill(self, sequence: _SimSequence, tokens: int) -> None:
        sequence.used_blocks = self.block_count(tokens)
        await self._count_or_compile(BucketPhase.PROMPT, 1, tokens, 0)
        if self._card.prompt_speed:
            await self._clock.wait(tokens / self._card.prompt_speed)

    async def _decode_step(self, decoded_sequence: _SimSequence, tokens: int) -> None:
        decoded_sequence.used_blocks = self.block_count(tokens)
        running = self._scheduler.running
        used_blocks = sum(sequence.used_blocks for sequence in running)
        await self._count_or_compile(BucketPhase.DECODE, len(running), 1, max(len(running), used_blocks))
        await self._clock.wait(1 / self._card.answer_speed if self._card.answer_speed else 0)

    async def _count_or_compile(self, phase: BucketPhase, batch_size: int, query_len: int, blocks: int) -> None:
        """Count a batch with a warm shape. For a cold shape, also compile it while the request waits."""
        real_shape = Bucket(batch_size, query_len, blocks)
        padded_run = self._pad(phase, real_shape)
        # Check before the shape is counted, because a request that fails must not change the counters.
        if not padded_run.warm and self._fail_on_cold_shapes:
            shape = tuple(padded_run.bucket)
            raise RuntimeError(f"{phase} shape {shape} was not warmed up, but VLLM_FULL_WARMUP is true")
        self.counters.observe(phase, real_shape, padded_run)
        if not padded_run.warm:
            self.counters.count_compiles(phase, padded_run.bucket)
            # Add the shape before the wait. Otherwise another request with the same shape would count as another
            # recompilation.
            self._warm_shapes.add((phase, padded_run.bucket))
            await self._clock.wait(self._card.scripted_cost(phase).compile_seconds)

    def _is_warm(self, phase: BucketPhase, bucket: Bucket) -> bool:
        return (phase, bucket) in self._warm_shapes and not self._is_forced_cold(phase)

    def _is_forced_cold(self, phase: BucketPhase) -> bool:
        """Return whether the script makes the prompt shape of this request cold."""
        recompile_every = self._script.recompile_every
        return phase is BucketPhase.PROMPT and recompile_every > 0 and self._request_count % recompile_every == 0
