"""The sim engine: every verb of the protocol, with scripted times, bytes and faults instead of a model."""

import asyncio
import codecs
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import cycle

from gaudi_runtime import errors
from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.protocol import (
    DeviceMemory,
    EngineLoad,
    GenerationChunk,
    Progress,
    SamplingParams,
    ServingCounters,
)
from gaudi_runtime.engines.sim.scheduler import SimScheduler
from gaudi_runtime.engines.sim.script import SimScript, read_script
from gaudi_runtime.engines.sim.tokenizer import ByteTokenizer
from gaudi_runtime.engines.stop_strings import StopStrings

SEGFAULT_EXIT = 139


class SimEngine:
    """A card that exists in a script. Answers echo the prompt, so they are the same on every run."""

    simulated = True

    def __init__(self, config: RuntimeConfig) -> None:
        self.tokenizer = ByteTokenizer()
        self.counters = ServingCounters()
        self.captures_graphs = config.engine.execution_mode in (
            ExecutionMode.HPU_GRAPHS,
            ExecutionMode.TORCH_COMPILE,
        )
        self._limits = config.limits
        self._script: SimScript = read_script(config.engine.sim_script)
        self._used = 0
        self._plan = BucketPlan((), ())
        self._warm: set[tuple[BucketPhase, Bucket]] = set()
        self._steps: Counter[str] = Counter()
        self._scheduler = SimScheduler(config.limits.max_num_seqs, 0)
        self._served_since = 0.0

    def load(self, progress: Progress) -> None:
        """Take the scripted time, or fail for the scripted reason."""
        time.sleep(self._script.load_seconds)
        progress()
        reason = self._script.fail_load
        if reason is not None:
            raise _error(reason)(f"The simulated checkpoint cannot be loaded: the script says failLoad={reason}.")
        self._use(self._script.weight_bytes)

    def profile(self) -> DeviceMemory:
        """The card without the weights."""
        return self.memory()

    def block_bytes(self) -> int:
        """Bytes of one KV block, from the script."""
        return self._script.block_bytes

    def allocate(self, kv_blocks: int) -> None:
        """Count the KV cache as used."""
        self._use(kv_blocks * self._script.block_bytes)
        self._scheduler = SimScheduler(self._limits.max_num_seqs, kv_blocks)

    def use_plan(self, plan: BucketPlan) -> None:
        """Take the buckets that requests are looked up in."""
        self._plan = plan

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Take the time of one compile, or meet the scripted fault."""
        at = self._step("warm", phase)
        if at == self._script.stall_at_bucket:
            threading.Event().wait()
        if at == self._script.crash_at_bucket:
            os._exit(SEGFAULT_EXIT)
        if at == self._script.raise_at_bucket:
            raise RuntimeError(f"the script says raiseAtBucket={at}")
        time.sleep(self._script.compile_seconds)
        self._warm.add((phase, bucket))

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Take the time and bytes of one graph. Raises DeviceOutOfMemory where script or card say so."""
        at = self._step("capture", phase)
        if at == self._script.oom_at_bucket:
            raise errors.DeviceOutOfMemory(f"the script says oomAtBucket={at}")
        graph_bytes = self._script.graph_bytes(phase, bucket.batch_size, bucket.query_len)
        self._use(graph_bytes)
        time.sleep(self._script.capture_seconds)
        return graph_bytes

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Nothing to sample from: only the step is counted."""
        progress()

    def warm_defragmenter(self, progress: Progress) -> None:
        """Nothing to move: only the step is counted."""
        progress()

    def memory(self) -> DeviceMemory:
        """The scripted card, less what was used."""
        return DeviceMemory(free=self._script.device_memory_bytes - self._used, total=self._script.device_memory_bytes)

    def start_serving(self) -> None:
        """Counters start at zero."""
        self.counters = ServingCounters()
        self._served_since = time.monotonic()

    async def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> AsyncGenerator[GenerationChunk, None]:
        """Echo the prompt byte by byte at the scripted speed; the end of the prompt is the end of the answer."""
        async with self._scheduler.place(self._blocks(len(prompt) + sampling.max_tokens)):
            await self._meet(BucketPhase.PROMPT, 1, len(prompt), 0)
            text, stops = codecs.getincrementaldecoder("utf-8")("replace"), StopStrings(sampling.stop)
            for position, token in enumerate(_answer(prompt, sampling.ignore_eos), start=1):
                if position == self._script.fail_at_token:
                    raise RuntimeError(f"the script says failAtToken={position}")
                await self._decode_step(len(prompt) + position)
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
        if self._blocks(wanted) > self._scheduler.total_blocks:
            return f"{wanted} tokens need more than the {self._scheduler.total_blocks} KV blocks of this server."
        return None

    def load_now(self) -> EngineLoad:
        """Sequences and blocks of this moment."""
        now = self._scheduler
        return EngineLoad(now.running, now.waiting, now.used_blocks, now.total_blocks)

    def heartbeat_seconds(self) -> float:
        """0, unless the script lets the engine stand still: a loop without work always turns."""
        return time.monotonic() - self._served_since if self._script.stall_serving else 0.0

    async def close(self) -> None:
        """Nothing to free."""

    def _use(self, size: int) -> None:
        if self._used + size > self._script.device_memory_bytes:
            raise errors.DeviceOutOfMemory(f"{size} bytes wanted, {self.memory().free} are free")
        self._used += size

    def _step(self, verb: str, phase: BucketPhase) -> str:
        self._steps[f"{verb} {phase}"] += 1
        return f"{phase}:{self._steps[f'{verb} {phase}']}"

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._limits.block_size)

    async def _decode_step(self, tokens: int) -> None:
        load = self._scheduler
        await self._meet(BucketPhase.DECODE, load.running, 1, max(load.running, self._blocks(tokens)))
        speed = self._script.tokens_per_second
        await asyncio.sleep(1 / speed if speed else 0)

    async def _meet(self, phase: BucketPhase, batch: int, query: int, blocks: int) -> None:
        """Count a hit, or compile a cold shape while the request waits."""
        bucket = self._plan.find(phase, batch, query, blocks)
        shape = bucket or self._plan.fallback(phase, self._limits, batch, query, blocks)
        if (phase, shape) in self._warm:
            self.counters.hits += 1
            return
        self.counters.cold[phase, shape] = self.counters.cold.get((phase, shape), 0) + 1
        self.counters.recompiles += 1
        self._warm.add((phase, shape))
        await asyncio.sleep(self._script.compile_seconds)


def _finish_reason(position: int, prompt: Sequence[int], sampling: SamplingParams, stopped: bool) -> str | None:
    if stopped or (position == len(prompt) and not sampling.ignore_eos):
        return "stop"
    return "length" if position == sampling.max_tokens else None


def _answer(prompt: Sequence[int], endless: bool) -> Iterator[int]:
    return cycle(prompt) if endless else iter(prompt)


def _error(reason: str) -> type[Exception]:
    known = errors.RuntimeStartError.__subclasses__()
    return next((error for error in known if error.reason == reason), RuntimeError)
