"""Simulated batching: the decode steps of a server with continuous batching for a trace.

The result is an estimate: a trace contains the arrival times and lengths of requests, but not the batches that a server
formed. Pace contains the assumptions. Requests are admitted in order of arrival, as soon as a sequence and the KV
blocks for the whole length are free. The prompt of a request runs alone. Then the request takes part in every decode
step until its answer is complete.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.traffic.histogram import Traffic, Weights


class Request(NamedTuple):
    """One request of a trace: its arrival in seconds on the trace's clock, its prompt tokens and its answer tokens."""

    arrival: float
    context_tokens: int
    generated_tokens: int


@dataclass(frozen=True)
class ServerPace:
    """The speed of the simulated server. The default is about the speed of an 8-billion-parameter model on one card."""

    prompt_tokens_per_second: float = 15_000.0
    decode_step_seconds: float = 0.025


DEFAULT_PACE = ServerPace()


def is_servable(request: Request, limits: Limits) -> bool:
    """Return True if the prompt fits into one batch and the model length allows at least one token of an answer."""
    return request.context_tokens <= min(limits.max_num_batched_tokens, limits.max_model_len - 1)


def simulate_decode_steps(
    requests: Iterable[Request],
    limits: Limits,
    kv_blocks: int,
    pace: ServerPace = DEFAULT_PACE,
) -> Weights:
    """Simulate a server with continuous batching for a trace, and return the weighted decode shapes.

    A shape is (batch size, 1, KV blocks of the batch). Its weight is the number of steps with this shape. Requests that
    exceed the limits or the `kv_blocks` of the device are skipped.
    """
    # The server does one addition per step instead of one per sequence. The start of a request already determines the
    # steps at which its sequence ends or needs one more block.
    server = _SimulatedServer(limits, kv_blocks, pace)
    for request in requests:
        if is_servable(request, limits):
            server.simulate_arrival(request)
    server.finish()
    return server.steps


class _SimulatedServer:
    def __init__(self, limits: Limits, kv_blocks: int, pace: ServerPace) -> None:
        self.steps = Counter[Bucket]()
        self._limits = limits
        self._pace = pace
        self._free_blocks = kv_blocks
        self._kv_blocks = kv_blocks
        self._now = 0.0
        self._step_count = 0
        self._batch_size = 0
        self._used_blocks = 0
        # The number of sequences by the step, modulo the block size, at which each sequence begins a new block.
        self._growth_counts = [0] * limits.block_size
        self._ending_sequences: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._waiting: deque[Request] = deque()

    def simulate_arrival(self, request: Request) -> None:
        """Run steps until the request arrives, then queue it."""
        self._run_steps(until=request.arrival)
        if not self._batch_size and not self._waiting:
            self._now = max(self._now, request.arrival)
        self._waiting.append(request)

    def finish(self) -> None:
        """Run steps until all requests are answered."""
        self._run_steps(until=float("inf"))

    def _run_steps(self, until: float) -> None:
        while (self._batch_size or self._waiting) and self._now < until:
            while self._waiting and self._admit():
                pass
            if self._batch_size:
                self._run_decode_step()

    def _admit(self) -> bool:
        """Run the prompt of the first waiting request if it fits now. Drop the request if it can never fit."""
        request = self._waiting[0]
        block_size, max_model_len = self._limits.block_size, self._limits.max_model_len
        decode_steps = min(request.generated_tokens, max_model_len - request.context_tokens) - 1
        max_blocks = -(-(request.context_tokens + max(decode_steps, 0)) // block_size)
        if max_blocks > self._kv_blocks:
            self._waiting.popleft()
            return True
        # Blocks are reserved for the whole length of a sequence. A real server can preempt a sequence instead, which is
        # not simulated.
        if self._batch_size >= self._limits.max_num_seqs or max_blocks > self._free_blocks:
            return False
        self._waiting.popleft()
        self._now += request.context_tokens / self._pace.prompt_tokens_per_second
        if decode_steps > 0:
            self._start_sequence(request.context_tokens, decode_steps, max_blocks)
        return True

    def _start_sequence(self, context_tokens: int, decode_steps: int, max_blocks: int) -> None:
        block_size = self._limits.block_size
        self._batch_size += 1
        self._free_blocks -= max_blocks
        self._used_blocks += -(-context_tokens // block_size)
        # In its decode step number n, counted from 0, a sequence gets token number (context_tokens + n + 1). This token
        # begins a new block if the block size divides (context_tokens + n).
        grows_at = (self._step_count - context_tokens) % block_size
        self._growth_counts[grows_at] += 1
        self._ending_sequences[self._step_count + decode_steps].append((max_blocks, grows_at))

    def _run_decode_step(self) -> None:
        self._used_blocks += self._growth_counts[self._step_count % self._limits.block_size]
        self.steps[Bucket(self._batch_size, 1, self._used_blocks)] += 1
        self._step_count += 1
        self._now += self._pace.decode_step_seconds
        for max_blocks, grows_at in self._ending_sequences.pop(self._step_count, ()):
            self._batch_size -= 1
            self._used_blocks -= max_blocks
            self._free_blocks += max_blocks
            self._growth_counts[grows_at] -= 1


def read_traffic_of_trace(requests: Sequence[Request], limits: Limits, kv_blocks: int) -> Traffic:
    """Convert the requests of a trace to Traffic: its prompts, and simulated decode steps.

    Each prompt is counted as a batch of one without context, because a trace contains neither batches nor shared
    prefixes.
    """
    prompts = Counter(Bucket(1, request.context_tokens, 0) for request in requests)
    return Traffic(prompts, simulate_decode_steps(requests, limits, kv_blocks))
