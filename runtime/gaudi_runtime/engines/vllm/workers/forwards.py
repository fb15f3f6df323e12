"""What the plugin's model runner really runs: every forward with the shape it is padded to, and what was in it.

Not predicted from vLLM's steps: the plugin merges prompts, looks buckets up twice for a decode batch, and with
contiguous blocks pads it to the highest block in use (docs/internals/vllm.md, Counts).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.observed_shapes import Ran, Shape


class Padded(NamedTuple):
    """The shape of one forward, as our plan counts it; one that verifies drafts has code and a graph of its own."""

    phase: BucketPhase
    bucket: Bucket
    verifies: bool = False


class Batch(NamedTuple):
    """One forward of serving: the sizes that were in it, what it ran as, and the compiles that it waited for."""

    real: Shape
    ran: Ran
    compiles: int


@dataclass
class _Forward:
    """`known` says whether its shape ran before, `compiled` how much the process had compiled when it began."""

    padded: Padded
    known: bool
    compiled: int
    graph: bool = True


class Forwards:
    """Watches one runner through its own check of every shape, and its lookups of buckets.

    `compiled` counts what this process has compiled. None where nothing counts it: then a shape that never ran before
    is one compile.
    """

    def __init__(self, runner: Any, compiled: Callable[[], int] | None = None) -> None:
        self._manager = manager = runner.bucketing_manager
        # Where attention has smaller blocks than the cache, a forward counts context in those, and buckets do not.
        block = int(runner.block_size)
        self._per_block = max(1, block // int(getattr(runner, "attn_block_size", None) or block))
        self._check, self._compiled = runner._check_config, compiled
        self._find_prompt, self._find_decode = manager.find_prompt_bucket, manager.find_decode_bucket
        self._known: set[Padded] = set()
        self._merges, self._found = runner._can_merge_prefill_contents, None
        self._now: _Forward | None = None
        self._step: list[_Forward] = []
        self._prompts: list[tuple[int, int, int]] = []
        self._decodes: list[tuple[int, int]] = []
        self._verified: int | None = None
        runner._check_config = self._check_config
        runner._can_merge_prefill_contents = self._can_merge
        manager.find_prompt_bucket, manager.find_decode_bucket = self._find_prompt_bucket, self._find_decode_bucket

    @property
    def running(self) -> Padded | None:
        """The shape of the forward that runs, or ran last."""
        return self._now.padded if self._now else None

    def forget(self) -> None:
        """What runs next need not check its shape."""
        self._now = None

    def decided(self, graph: bool) -> None:
        """The forward that runs has a graph, or has none."""
        if self._now:
            self._now.graph = graph

    def step(self, execute: Callable[[], Any]) -> tuple[Any, list[Batch]]:
        """The answer of `execute`, a step of serving, and the batches that the plugin made of it."""
        self._step, self._prompts, self._decodes = [], [], []
        answer = execute()
        return answer, self._batches()

    def _batches(self) -> list[Batch]:
        # What is compiled between two forwards is the first one's: its own code, then its sampler's.
        ends = [*(each.compiled for each in self._step[1:]), self._count()]
        prompts = [each for each in self._step if each.padded.phase is BucketPhase.PROMPT]
        # Each prompt batch is looked up once as it is formed; before that the plugin looks up what it might merge.
        lengths = iter(self._prompts[len(self._prompts) - len(prompts) :])
        return [self._batch(each, end - each.compiled, lengths) for each, end in zip(self._step, ends, strict=True)]

    def _batch(self, forward: _Forward, compiled: int, lengths: Any) -> Batch:
        phase, bucket, verifies = forward.padded
        if phase is BucketPhase.PROMPT:
            real = (phase, *next(lengths, bucket))
        else:
            # By its sequences first, then by the blocks that it reads.
            found = self._decodes or [(bucket.batch_size, bucket.num_blocks)]
            # Drafts have rows of their own: as many for each sequence as the one with most drafts needs.
            rows = found[0][0] * (bucket.batch_size // self._verified if verifies and self._verified else 1)
            real = (phase, rows, bucket.query_len, found[min(1, len(found) - 1)][1])
        compiles = compiled if self._compiled else int(not forward.known)
        return Batch(real, Ran(bucket, forward.known and forward.graph and not compiles), compiles)

    def _count(self) -> int:
        return self._compiled() if self._compiled else 0

    def _check_config(
        self, batch_size: int, seq_len: int, num_blocks: int, attn_metadata: Any, warmup_mode: bool
    ) -> None:
        prompt = bool(attn_metadata.is_prompt)
        # Of a prompt the plugin counts the context of the whole batch.
        blocks = num_blocks // batch_size // self._per_block if prompt else num_blocks
        bucket = Bucket(int(batch_size), int(seq_len), int(blocks))
        verifies = not prompt and self._verified is not None
        padded = Padded(BucketPhase.PROMPT if prompt else BucketPhase.DECODE, bucket, verifies)
        self._now = _Forward(padded, padded in self._known, self._count())
        self._known.add(padded)
        if not warmup_mode:
            self._step.append(self._now)
        self._check(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)

    def _can_merge(self, batch: Any, prompt: Any) -> bool:
        """Whether the plugin may add a prompt to a batch: only if a planned bucket holds both."""
        self._found = None
        return bool(self._merges(batch, prompt)) and self._found in self._manager.prompt_buckets

    def _find_prompt_bucket(self, batch_size: int, seq_len: int, ctx: int = 0) -> Any:
        self._prompts.append((int(batch_size), int(seq_len), int(ctx)))  # numbers of numpy's, which JSON does not know
        self._found = self._find_prompt(batch_size, seq_len, ctx)
        return self._found

    def _find_decode_bucket(self, batch_size: int, num_blocks: int, *seeds: bool, **options: Any) -> Any:
        self._decodes.append((int(batch_size), int(num_blocks)))
        found = self._find_decode(batch_size, num_blocks, *seeds, **options)
        if seeds:
            # The first lookup of a decode batch: by its sequences, and whether they have drafts.
            self._verified = int(found[0]) if seeds[0] else None
        return found


class GraphGate:
    """Stands before the runner's own answer whether a forward may use a graph."""

    def __init__(self, runner: Any, forwards: Forwards) -> None:
        self._ask, self._forwards = runner._use_graphs, forwards
        self._capturing = False
        self._granted = False
        self._graphed: set[Padded | None] = set()
        runner._use_graphs = self._use_graphs

    def capture(self, forward: Callable[[], None]) -> bool:
        """Run `forward` with graphs; False when the plugin would not use one, as for prompts above its own limit."""
        self._forwards.forget()
        self._capturing, self._granted = True, False
        try:
            forward()
        finally:
            self._capturing = False
        self._graphed.add(self._forwards.running)
        return self._granted

    def _use_graphs(self, attn_metadata: object, batch_size: int) -> bool:
        # The plugin checks a forward's shape before it asks for a graph, in the same thread. It captures at the first
        # forward of any shape: compiling would capture already, and serving a bucket that was left without a graph
        # would capture it then, in memory that the split does not have.
        allowed = self._capturing or self._forwards.running in self._graphed
        self._granted = allowed and bool(self._ask(attn_metadata, batch_size))
        self._forwards.decided(self._granted)
        return self._granted


class FixedBuckets(list[tuple[int, ...]]):
    """The buckets of our plan, to which the plugin adds none."""

    # It would add every fallback shape, and pad later batches to it, past a bucket that has a graph.

    def append(self, bucket: tuple[int, ...]) -> None:
        """Nothing: what no bucket holds runs at its fallback shape each time."""
