"""The forwards of the plugin's model runner: the padded shape and the real batch of each forward.

Forwards are observed, because vLLM's steps do not determine them. The plugin merges prompts and looks up a decode batch
twice. With contiguous blocks, it also pads the batch to the highest block in use (docs/internals/vllm.md, Counts).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.compile_times import NOTHING, Compiles, CompileTotals
from gaudi_runtime.engines.vllm.workers.observed_shapes import PaddedRun, Shape


class ForwardShape(NamedTuple):
    """The padded shape of one forward, in the plan's sizes. A forward that verifies drafts has its own graph."""

    phase: BucketPhase
    bucket: Bucket
    verifies: bool = False


class Batch(NamedTuple):
    """The real batch of one forward: its real sizes, its padded shape, and the recompilations during the forward.

    `batches` is 0 for a recompilation that was observed after its forward was counted.
    """

    real: Shape
    ran: PaddedRun
    compiles: int
    batches: int = 1


class ColdShape(RuntimeError):
    """The error for a forward whose padded shape did not run during warm-up and is therefore rejected."""


@dataclass
class _Forward:
    """One forward. `known`: its shape ran before. `took`: its compiles. `batch`: how it was counted."""

    padded: ForwardShape
    known: bool
    took: CompileTotals = NOTHING
    graph: bool = True
    batch: Batch | None = None


class ForwardObserver:
    """An observer of the forwards of one model runner. It wraps the runner's shape check and its bucket lookups.

    `compiled` returns what this process has compiled. If `compiled` is None, the first forward of a shape counts as one
    recompilation. `settled` receives the compiles of each forward during serving.
    """

    def __init__(
        self,
        runner: Any,
        compiled: Compiles | None = None,
        settled: Callable[[CompileTotals], None] = lambda _: None,
    ) -> None:
        self._manager = manager = runner.bucketing_manager
        # If the blocks of attention are smaller than the blocks of the cache, a forward counts its context in attention
        # blocks. Buckets count in cache blocks.
        block = int(runner.block_size)
        self._per_block = max(1, block // int(getattr(runner, "attn_block_size", None) or block))
        self._check, self._compiled, self._settled = runner._check_config, compiled, settled
        self._find_prompt, self._find_decode = manager.find_prompt_bucket, manager.find_decode_bucket
        self._known: set[ForwardShape] = set()
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
    def current_shape(self) -> ForwardShape | None:
        """The shape of the running forward, or of the last one."""
        return self._now.padded if self._now else None

    def reset_current_shape(self) -> None:
        """Forget the shape of the last forward, because the next forward may not call the shape check."""
        self._now = None

    def record_graph_use(self, graph: bool) -> None:
        """Record whether the current forward uses a graph."""
        if self._now:
            self._now.graph = graph

    def start_serving(self, *, refuses_cold: bool) -> None:
        """Start counting. With `refuses_cold`, raise ColdShape before a forward whose shape has never run."""
        self._refuses, self._seen = refuses_cold, self._read_compiles()

    def step(self, execute: Callable[[], Any]) -> tuple[Any, list[Batch]]:
        """Run `execute`, a step of serving. Return its answer and the batches that the plugin formed in this step."""
        previous, self._step, self._prompts, self._decodes = self._queued, [], [], []
        answer = execute()
        self._assign_compiles()
        # An answer with `get_output` is read after the next step has begun. Until then, the card may still compile for
        # this step.
        self._queued = self._step if hasattr(answer, "get_output") else []
        late = [again for each in previous if (again := self._late_recompilation(each))]
        for each in previous if self._queued else [*previous, *self._step]:
            self._settled(each.took)
        return answer, [*late, *self._collect_batches()]

    def _collect_batches(self) -> list[Batch]:
        prompts = [each for each in self._step if each.padded.phase is BucketPhase.PROMPT]
        # Use the last lookups. The plugin looks up each prompt batch when the batch is formed; earlier lookups belong
        # to merges that the plugin only considered.
        lengths = iter(self._prompts[len(self._prompts) - len(prompts) :])
        for each in self._step:
            each.batch = self._make_batch(each, lengths)
        return [each.batch for each in self._step if each.batch]

    def _make_batch(self, forward: _Forward, lengths: Any) -> Batch:
        phase, bucket, verifies = forward.padded
        if phase is BucketPhase.PROMPT:
            real = (phase, *next(lengths, bucket))
        else:
            # The plugin looks up a decode batch twice: first by its number of sequences, then by the number of blocks
            # that it reads.
            found = self._decodes or [(bucket.batch_size, bucket.num_blocks)]
            # With drafts, every sequence has the same number of rows: the number that the sequence with the most drafts
            # needs.
            rows = found[0][0] * (bucket.batch_size // self._verified if verifies and self._verified else 1)
            real = (phase, rows, bucket.query_len, found[min(1, len(found) - 1)][1])
        compiles = int(forward.took.is_recompilation) if self._compiled else int(not forward.known)
        return Batch(real, PaddedRun(bucket, forward.known and forward.graph and not compiles), compiles)

    def _late_recompilation(self, forward: _Forward) -> Batch | None:
        """Return the recompilation of a forward that was observed after the forward was counted; otherwise None."""
        counted = forward.batch
        if counted is None or counted.compiles or not forward.took.is_recompilation:
            return None
        return Batch(counted.real, PaddedRun(counted.ran.bucket, warm=False), compiles=1, batches=0)

    def _assign_compiles(self, beginning: _Forward | None = None) -> None:
        """Assign the compiles since the last call to one forward; to `beginning` if no other forward is running."""
        found = self._read_compiles() - self._seen
        running = [*self._queued, *self._step]
        if not found.recipes or not (running or beginning):
            return
        self._seen += found
        # The card queues forwards, so an earlier forward may be the one that compiles. Attribute the compile to the
        # first forward with an unknown shape.
        cold = [each for each in running if not each.known and not each.took.is_recompilation]
        blamed = cold[0] if cold else running[-1] if running else beginning
        if blamed:
            blamed.took += found

    def _read_compiles(self) -> CompileTotals:
        return self._compiled() if self._compiled else NOTHING

    def _check_config(
        self, batch_size: int, seq_len: int, num_blocks: int, attn_metadata: Any, warmup_mode: bool
    ) -> None:
        prompt = bool(attn_metadata.is_prompt)
        # For a prompt, the plugin passes the context blocks of the whole batch. Divide by the batch size to get the
        # blocks of one row.
        blocks = num_blocks // batch_size // self._per_block if prompt else num_blocks
        bucket = Bucket(int(batch_size), int(seq_len), int(blocks))
        verifies = not prompt and self._verified is not None
        padded = ForwardShape(BucketPhase.PROMPT if prompt else BucketPhase.DECODE, bucket, verifies)
        known = padded in self._known
        if self._refuses and not known and not warmup_mode:
            raise ColdShape(
                f"{padded.phase} shape {tuple(bucket)} was not warmed up, but warmup.failOnColdShapes is true"
            )
        self._now = _Forward(padded, known)
        self._known.add(padded)
        if not warmup_mode:
            self._assign_compiles(self._now)
            self._step.append(self._now)
        self._check(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)

    def _can_merge(self, batch: Any, prompt: Any) -> bool:
        """Return whether the plugin may add a prompt to a batch, which requires a planned bucket for both together."""
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
            # The plugin passes `seeds` only in the first lookup of a decode batch, which uses the number of sequences
            # and whether they have drafts.
            self._verified = int(found[0]) if seeds[0] else None
        return found


class GraphPolicy:
    """A replacement for the decision of the plugin's model runner whether a forward may use a graph."""

    def __init__(self, runner: Any, forwards: ForwardObserver) -> None:
        self._ask, self._forwards = runner._use_graphs, forwards
        self._capturing = False
        self._granted = False
        self._graphed: set[ForwardShape | None] = set()
        runner._use_graphs = self._use_graphs

    def capture(self, forward: Callable[[], None]) -> bool:
        """Run `forward` with graphs. Return False if the plugin uses no graph, for example for very long prompts."""
        self._forwards.reset_current_shape()
        self._capturing, self._granted = True, False
        try:
            forward()
        finally:
            self._capturing = False
        self._graphed.add(self._forwards.current_shape)
        return self._granted

    def _use_graphs(self, attn_metadata: object, batch_size: int) -> bool:
        # The plugin checks a forward's shape before this call, in the same thread. By default it captures a graph at
        # the first forward of any shape. A compile would then already capture a graph, and a bucket without a graph
        # would capture one during serving, for which the memory split has no room.
        allowed = self._capturing or self._forwards.current_shape in self._graphed
        self._granted = allowed and bool(self._ask(attn_metadata, batch_size))
        self._forwards.record_graph_use(self._granted)
        return self._granted


class FixedBuckets(list[tuple[int, ...]]):
    """The padding targets of the plugin's model runner: the buckets of the plan. The plugin cannot add buckets."""

    # The plugin adds every fallback shape to its list. It would then pad later batches to the fallback shape and not to
    # a bucket with a graph.

    def append(self, bucket: tuple[int, ...]) -> None:
        """Do nothing, so that a batch without a bucket runs at its fallback shape each time."""
