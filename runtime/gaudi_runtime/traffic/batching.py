"""Decode steps of a trace: a server with continuous batching, simulated from arrivals alone.

See docs/how-to/traffic.md, Decode.

An estimate: the trace says when requests came and how long they were, not which batches a server made of them. What is
assumed stands in Pace. A request is admitted in order of arrival while a sequence and the KV blocks of its whole
length are free, its prompt runs alone, then it takes part in every decode step until its answer is complete.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.traffic.histogram import ShapeCounts, Traffic, Weights
from gaudi_runtime.traffic.trace import Request


@dataclass(frozen=True)
class Pace:
    """How fast the simulated server is. A model of 8 billion parameters on one card is of this order."""

    prompt_tokens_per_second: float = 15_000.0
    decode_step_seconds: float = 0.025


DEFAULT_PACE = Pace()
# Simulated steps after which the batches are known well enough: seconds of work.
MOST_STEPS = 2_000_000


def is_servable(request: Request, limits: Limits) -> bool:
    """Whether the prompt fits into one batch and leaves room for a token of an answer."""
    return request.context <= min(limits.max_num_batched_tokens, limits.max_model_len - 1)


def decode_steps(requests: Iterable[Request], limits: Limits, kv_blocks: int, pace: Pace = DEFAULT_PACE) -> Weights:
    """(batch size, 1, KV blocks of the batch) of every simulated decode step, with the number of such steps.

    Requests that the limits or the `kv_blocks` of the device refuse are left out, and so is what comes after
    2,000,000 steps.
    """
    # One addition per step, not one per sequence: who ends and who needs one more block at a step is known when a
    # request starts.
    server = _Server(limits, kv_blocks, pace)
    for request in requests:
        if is_servable(request, limits):
            server.arrive(request)
    server.finish()
    return server.steps.weights()


class _Server:
    def __init__(self, limits: Limits, kv_blocks: int, pace: Pace) -> None:
        self.steps = ShapeCounts()
        self._limits = limits
        self._pace = pace
        self._free = kv_blocks
        self._kv_blocks = kv_blocks
        self._now = 0.0
        self._step = 0
        self._batch = 0
        self._blocks = 0
        # Sequences by the step, modulo the block size, at which each begins a new block.
        self._growing = [0] * limits.block_size
        self._ending: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._waiting: deque[Request] = deque()

    def arrive(self, request: Request) -> None:
        """Work until the request comes, then queue it."""
        self._work(until=request.arrival)
        if not self._batch and not self._waiting:
            self._now = max(self._now, request.arrival)
        self._waiting.append(request)

    def finish(self) -> None:
        """Work until nothing is left."""
        self._work(until=float("inf"))

    def _work(self, until: float) -> None:
        while (self._batch or self._waiting) and self._now < until and self._step < MOST_STEPS:
            while self._waiting and self._admit():
                pass
            if self._batch:
                self._decode()

    def _admit(self) -> bool:
        """Run the prompt of the first waiting request if there is room; a request that can never fit is dropped."""
        request = self._waiting[0]
        block, length = self._limits.block_size, self._limits.max_model_len
        steps = min(request.generated, length - request.context) - 1
        most = -(-(request.context + max(steps, 0)) // block)
        if most > self._kv_blocks:
            self._waiting.popleft()
            return True
        # Blocks of the whole length: a real server preempts where it has guessed too few, which is not simulated.
        if self._batch >= self._limits.max_num_seqs or most > self._free:
            return False
        self._waiting.popleft()
        self._now += request.context / self._pace.prompt_tokens_per_second
        if steps > 0:
            self._start(request.context, steps, most)
        return True

    def _start(self, context: int, steps: int, most: int) -> None:
        block = self._limits.block_size
        self._batch += 1
        self._free -= most
        self._blocks += -(-context // block)
        # The token of step s is number context + s + 1 and begins a block when context + s is a multiple of it.
        grows_at = (self._step - context) % block
        self._growing[grows_at] += 1
        self._ending[self._step + steps].append((most, grows_at))

    def _decode(self) -> None:
        self._blocks += self._growing[self._step % self._limits.block_size]
        self.steps.add(Bucket(self._batch, 1, self._blocks))
        self._step += 1
        self._now += self._pace.decode_step_seconds
        for most, grows_at in self._ending.pop(self._step, ()):
            self._batch -= 1
            self._blocks -= most
            self._free += most
            self._growing[grows_at] -= 1


# Requests whose decode steps are simulated: the first ones of a longer trace. Prompts are all counted.
MOST_SIMULATED = 200_000


def traffic_of(requests: Iterable[Request], limits: Limits, kv_blocks: int, pace: Pace = DEFAULT_PACE) -> Traffic:
    """Traffic in one pass (docs/how-to/traffic.md, Traces).

    Memory grows with the distinct shapes, up to MOST_COUNTED, not with the requests.
    """
    prompts = ShapeCounts()

    def counted() -> Iterator[Request]:
        for request in requests:
            # Alone and without cached context: a trace names neither batches nor shared prefixes.
            prompts.add(Bucket(1, request.context, 0))
            yield request

    rest = counted()
    decode = decode_steps(islice(rest, MOST_SIMULATED), limits, kv_blocks, pace)
    for _ in rest:
        pass
    return Traffic(prompts.weights(), decode)
