"""The forwards of the plugin's model runner: for each, the padded shape and the real batch.

Forwards are observed, because vLLM's steps do not predict them: the plugin merges prompts, looks up a decode batch
twice, and with contiguous blocks pads it to the highest block in use (docs/internals/vllm.md, Counts).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.compile_times import NOTHING, Compiled, Compiles
from gaudi_runtime.engines.vllm.workers.observed_shapes import Ran, Shape


class Padded(NamedTuple):
    """The padded shape of one forward, in our plan's sizes. A forward that verifies drafts has its own graph."""

    phase: BucketPhase
    bucket: Bucket
    verifies: bool = False


class Batch(NamedTuple):
    """The real batch of one forward: its sizes, the shape that it ran as, and the recompilations that it waited for.

    `batches` is 0 for a recompilation that was observed after its forward had been counted.
    """

    real: Shape
    ran: Ran
    compiles: int
    batches: int = 1


class ColdShape(RuntimeError):
    """A forward of the plugin's model runner was refused because warm-up did not run its padded shape."""


@dataclass
class _Forward:
    """`known` says whether its shape ran before, `took` has the compiles for it, `batch` is its count."""

    padded: Padded
    known: bool
    took: Compiled = NOTHING
    graph: bool = True
    batch: Batch | None = None


class Forwards:
    """Observes the forwards of one model runner, by its own check of every shape and its lookups of buckets.

    `compiled` returns what this process has compiled. If it is None, the first forward of a shape is one recompilation.
    `settled` receives what was compiled for each forward of serving.
    """

    def __init__(
        self,
        runner: Any,
        compiled: Compiles | None = None,
        settled: Callable[[Compiled], None] = lambda _: None,
    ) -> None:
        self._manager = manager = runner.bucketing_manager
        # If attention has smaller blocks than the cache, a forward counts context in those, but buckets do not.
        block = int(runner.block_size)
        self._per_block = max(1, block // int(getattr(runner, "attn_block_size", None) or block))
        self._check, self._compiled, self._settled = runner._check_config, compiled, settled
        self._find_prompt, self._find_decode = manager.find_prompt_bucket, manager.find_decode_bucket
        self._known: set[Padded] = set()
        self._merges, self._found = runner._can_merge_prefill_contents, None
        self._now: _Forward | None = None
        self._refuses = False
        self._seen = NOTHING
        self._step: list[_Forward] = []
        self._queued: list[_Forward] = []
        self._prompts: list[tuple[int, int, int]] = []
        self._decodes: list[tuple[int, int]] = []
        self._verified: int | None = None
        runner._check_config = self._check_config
        runner._can_merge_prefill_contents = self._can_merge
        manager.find_prompt_bucket, manager.find_decode_bucket = self._find_prompt_bucket, self._find_decode_bucket

    @property
    def running(self) -> Padded | None:
        """The shape of the forward that runs or ran last."""
        return self._now.padded if self._now else None

    def forget(self) -> None:
        """Forget the shape of the last forward, because the next one may not check its shape."""
        self._now = None

    def decided(self, graph: bool) -> None:
        """Record whether the current forward uses a graph."""
        if self._now:
            self._now.graph = graph

    def start_serving(self, *, refuses_cold: bool) -> None:
        """Count from here on. With `refuses_cold`, raise ColdShape before a forward of a shape that never ran."""
        self._refuses, self._seen = refuses_cold, self._read()

    def step(self, execute: Callable[[], Any]) -> tuple[Any, list[Batch]]:
        """Run `execute`, a step of serving; return its answer and the batches that the plugin made of it."""
        previous, self._step, self._prompts, self._decodes = self._queued, [], [], []
        answer = execute()
        self._blame()
        # An answer of this kind is read after the next step has begun. Until then the card may still compile.
        self._queued = self._step if hasattr(answer, "get_output") else []
        late = [again for each in previous if (again := self._late(each))]
        for each in previous if self._queued else [*previous, *self._step]:
            self._settled(each.took)
        return answer, [*late, *self._batches()]

    def _batches(self) -> list[Batch]:
        prompts = [each for each in self._step if each.padded.phase is BucketPhase.PROMPT]
        # Each prompt batch is looked up when it is formed; earlier lookups are for merges that the plugin considers.
        lengths = iter(self._prompts[len(self._prompts) - len(prompts) :])
        for each in self._step:
            each.batch = self._batch(each, lengths)
        return [each.batch for each in self._step if each.batch]

    def _batch(self, forward: _Forward, lengths: Any) -> Batch:
        phase, bucket, verifies = forward.padded
        if phase is BucketPhase.PROMPT:
            real = (phase, *next(lengths, bucket))
        else:
            # Looked up by its sequences first, then by the blocks that it reads.
            found = self._decodes or [(bucket.batch_size, bucket.num_blocks)]
            # With drafts, each sequence has as many rows as the one with most drafts needs.
            rows = found[0][0] * (bucket.batch_size // self._verified if verifies and self._verified else 1)
            real = (phase, rows, bucket.query_len, found[min(1, len(found) - 1)][1])
        compiles = int(forward.took.counts) if self._compiled else int(not forward.known)
        return Batch(real, Ran(bucket, forward.known and forward.graph and not compiles), compiles)

    def _late(self, forward: _Forward) -> Batch | None:
        """Return the recompilation of a forward that was counted without it."""
        counted = forward.batch
        if counted is None or counted.compiles or not forward.took.counts:
            return None
        return Batch(counted.real, Ran(counted.ran.bucket, warm=False), compiles=1, batches=0)

    def _blame(self, beginning: _Forward | None = None) -> None:
        """Assign the compiles since the last call to a forward, at the latest to `beginning`."""
        found = self._read() - self._seen
        running = [*self._queued, *self._step]
        if not found.recipes or not (running or beginning):
            return
        self._seen += found
        # Forwards are queued on the card, so an earlier one may still compile. A forward with an unknown
        # shape comes first.
        cold = [each for each in running if not each.known and not each.took.counts]
        blamed = cold[0] if cold else running[-1] if running else beginning
        if blamed:
            blamed.took += found

    def _read(self) -> Compiled:
        return self._compiled() if self._compiled else NOTHING

    def _check_config(
        self, batch_size: int, seq_len: int, num_blocks: int, attn_metadata: Any, warmup_mode: bool
    ) -> None:
        prompt = bool(attn_metadata.is_prompt)
        # For a prompt, the plugin counts the context of the whole batch.
        blocks = num_blocks // batch_size // self._per_block if prompt else num_blocks
        bucket = Bucket(int(batch_size), int(seq_len), int(blocks))
        verifies = not prompt and self._verified is not None
        padded = Padded(BucketPhase.PROMPT if prompt else BucketPhase.DECODE, bucket, verifies)
        known = padded in self._known
        if self._refuses and not known and not warmup_mode:
            raise ColdShape(
                f"{padded.phase} shape {tuple(bucket)} was not warmed up, and warmup.failOnColdShapes does not allow "
                "compiling it while serving"
            )
        self._now = _Forward(padded, known)
        self._known.add(padded)
        if not warmup_mode:
            self._blame(self._now)
            self._step.append(self._now)
        self._check(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)

    def _can_merge(self, batch: Any, prompt: Any) -> bool:
        """Return True if the plugin may add a prompt to a batch, because a planned bucket holds both."""
        self._found = None
        return bool(self._merges(batch, prompt)) and self._found in self._manager.prompt_buckets

    def _find_prompt_bucket(self, batch_size: int, seq_len: int, ctx: int = 0) -> Any:
        self._prompts.append((int(batch_size), int(seq_len), int(ctx)))  # JSON does not support the numbers of numpy
        self._found = self._find_prompt(batch_size, seq_len, ctx)
        return self._found

    def _find_decode_bucket(self, batch_size: int, num_blocks: int, *seeds: bool, **options: Any) -> Any:
        self._decodes.append((int(batch_size), int(num_blocks)))
        found = self._find_decode(batch_size, num_blocks, *seeds, **options)
        if seeds:
            # The first lookup of a decode batch is by its sequences and whether they have drafts.
            self._verified = int(found[0]) if seeds[0] else None
        return found


class GraphGate:
    """Replaces the decision of the plugin's model runner whether a forward may use a graph."""

    def __init__(self, runner: Any, forwards: Forwards) -> None:
        self._ask, self._forwards = runner._use_graphs, forwards
        self._capturing = False
        self._granted = False
        self._graphed: set[Padded | None] = set()
        runner._use_graphs = self._use_graphs

    def capture(self, forward: Callable[[], None]) -> bool:
        """Run `forward` with graphs. Return False if the plugin uses none, as for prompts above its own limit."""
        self._forwards.forget()
        self._capturing, self._granted = True, False
        try:
            forward()
        finally:
            self._capturing = False
        self._graphed.add(self._forwards.running)
        return self._granted

    def _use_graphs(self, attn_metadata: object, batch_size: int) -> bool:
        # The plugin checks a forward's shape before this call, in the same thread. It captures a graph at the first
        # forward of any shape. So without this check, compiling would already capture, and serving a bucket without a
        # graph would capture it in memory that the split does not have.
        allowed = self._capturing or self._forwards.running in self._graphed
        self._granted = allowed and bool(self._ask(attn_metadata, batch_size))
        self._forwards.decided(self._granted)
        return self._granted


class FixedBuckets(list[tuple[int, ...]]):
    """The buckets of our plan, to which the plugin's model runner pads forwards; the plugin cannot add buckets."""

    # The plugin would add every fallback shape, and pad later batches to it instead of to a bucket with a graph.

    def append(self, bucket: tuple[int, ...]) -> None:
        """Do nothing, because a batch that no bucket holds runs at its fallback shape each time."""
