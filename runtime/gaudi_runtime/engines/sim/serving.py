"""Answers of the sim engine: the prompt, echoed at the card's speed through the plan's buckets."""

import codecs
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import cycle

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.protocol import EngineLoad, GenerationChunk, SamplingParams
from gaudi_runtime.engines.sim.card import SimCard
from gaudi_runtime.engines.sim.clock import SimClock
from gaudi_runtime.engines.sim.device import SimMemory
from gaudi_runtime.engines.sim.scheduler import Seat, SimScheduler
from gaudi_runtime.engines.sim.script import SimScript
from gaudi_runtime.engines.stop_strings import StopStrings
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, pad_by


class SimServing:
    """One batch of sequences; used in the event loop only. `warm` are the shapes that need no compile."""

    def __init__(
        self,
        script: SimScript,
        card: SimCard,
        clock: SimClock,
        memory: SimMemory,
        limits: Limits,
        plan: BucketPlan,
        kv_blocks: int,
        warm: set[tuple[BucketPhase, Bucket]],
        fail_on_cold_shapes: bool,
    ) -> None:
        self._pad = pad_by(plan, limits, self._is_warm)
        self.counters = ServingHistogram(self._pad)
        self._script, self._card, self._clock, self._memory = script, card, clock, memory
        self._limits, self._warm = limits, warm
        self._fail_on_cold_shapes = fail_on_cold_shapes
        self._scheduler = SimScheduler(limits.max_num_seqs, kv_blocks)
        self._requests = 0

    async def stream(self, prompt: Sequence[int], sampling: SamplingParams) -> AsyncGenerator[GenerationChunk, None]:
        """Echo the prompt byte by byte; the end of the prompt is the end of the answer."""
        async with self._scheduler.place(self.blocks(len(prompt) + sampling.max_tokens)) as seat:
            self._requests += 1
            self._memory.use(self._script.leak_bytes_per_request)
            await self._prefill(seat, len(prompt))
            text, stops = codecs.getincrementaldecoder("utf-8")("replace"), StopStrings(sampling.stop)
            for position, token in enumerate(_answer(prompt, sampling.ignore_eos), start=1):
                if position == self._script.fail_at_token:
                    raise RuntimeError(f"the script says failAtToken={position}")
                await self._decode_step(seat, len(prompt) + position)
                piece = stops.push(text.decode(bytes([token % 256])))
                reason = _finish_reason(position, prompt, sampling, stops.stopped)
                if reason is not None and not stops.stopped:
                    piece += stops.flush()
                yield GenerationChunk(piece, (token,), reason)
                if reason is not None:
                    return

    def admissible(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """A sentence when prompt and answer exceed the model's length or the whole KV cache."""
        wanted = prompt_tokens + max_tokens
        if wanted > self._limits.max_model_len:
            return (
                f"{prompt_tokens} prompt tokens and {max_tokens} for the answer exceed "
                f"the model's length of {self._limits.max_model_len}; shorten the prompt or lower max_tokens."
            )
        if self.blocks(wanted) > self._scheduler.total_blocks:
            return f"{wanted} tokens need more than the {self._scheduler.total_blocks} KV blocks of this server."
        return None

    def load_now(self) -> EngineLoad:
        """Sequences and blocks of this moment."""
        now = self._scheduler
        return EngineLoad(now.running, now.waiting, now.used_blocks, now.total_blocks)

    def blocks(self, tokens: int) -> int:
        """KV blocks of so many tokens."""
        return -(-tokens // self._limits.block_size)

    async def _prefill(self, seat: Seat, tokens: int) -> None:
        seat.blocks = self.blocks(tokens)
        await self._meet(BucketPhase.PROMPT, 1, tokens, 0)
        if self._card.prompt_speed:
            await self._clock.wait(tokens / self._card.prompt_speed)

    async def _decode_step(self, seat: Seat, tokens: int) -> None:
        seat.blocks = self.blocks(tokens)
        running = self._scheduler.running
        await self._meet(BucketPhase.DECODE, running, 1, max(running, self._scheduler.filled_blocks))
        await self._clock.wait(1 / self._card.answer_speed if self._card.answer_speed else 0)

    async def _meet(self, phase: BucketPhase, batch: int, query: int, blocks: int) -> None:
        """Count a hit, or compile a cold shape while the request waits."""
        real = Bucket(batch, query, blocks)
        padded = self._pad(phase, real)
        if not padded.warm and self._fail_on_cold_shapes:
            shape = tuple(padded.bucket)
            raise RuntimeError(f"{phase} {shape} was not warmed up, and warmup.failOnColdShapes lets it fail")
        self.counters.observe(phase, real, padded)
        if not padded.warm:
            self.counters.compiled(phase, padded.bucket)
            self._warm.add((phase, padded.bucket))
            await self._clock.wait(self._card.cost(phase).compile_seconds)

    def _is_warm(self, phase: BucketPhase, bucket: Bucket) -> bool:
        return (phase, bucket) in self._warm and not self._forgotten(phase)

    def _forgotten(self, phase: BucketPhase) -> bool:
        """Whether the script makes this request's prompt cold."""
        every = self._script.recompile_every
        return phase is BucketPhase.PROMPT and every > 0 and self._requests % every == 0


def _finish_reason(position: int, prompt: Sequence[int], sampling: SamplingParams, stopped: bool) -> str | None:
    if stopped or (position == len(prompt) and not sampling.ignore_eos):
        return "stop"
    return "length" if position == sampling.max_tokens else None


def _answer(prompt: Sequence[int], endless: bool) -> Iterator[int]:
    return cycle(prompt) if endless else iter(prompt)
