"""The forwards of the plugin's model runner, and the compiles of the other parts of a step.

Each forward has a padded shape and a real batch.
Forwards are observed, because vLLM's steps do not determine them. The plugin merges prompts and looks up a decode batch
twice. With contiguous blocks, it also pads the batch to the highest block in use (docs/internals/vllm.md, Counts).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.compiles import StepPart
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.workers.compile_times import NOTHING, Compiles, CompileTotals, StepCompiles
from gaudi_runtime.engines.vllm.workers.observed_shapes import PaddedRun, Shape
from gaudi_runtime.engines.vllm.workers.request_kinds import describe_requests


class ForwardShape(NamedTuple):
    """The padded shape of one forward, in the plan's sizes. A forward that verifies drafts has its own graph."""

    phase: BucketPhase
    bucket: Bucket
    verifies: bool = False


class Batch(NamedTuple):
    """The real batch of one forward: its real sizes, its padded shape, and the recompilations of the forward.

    `batches` is 0 for a recompilation that was observed after its forward was counted.
    """

    real_shape: Shape
    padded_run: PaddedRun
    compiles: int
    batches: int = 1


class ColdShape(RuntimeError):
    """The error for a forward whose padded shape did not run during warm-up and is therefore rejected."""


@dataclass
class _Forward:
    """One forward. `ran_before`: its shape ran before. `compile_totals`: its compiles. `batch`: how it was counted."""

    padded_shape: ForwardShape
    ran_before: bool
    compile_totals: CompileTotals = NOTHING
    has_graph: bool = True
    batch: Batch | None = None


class ForwardObserver:
    """An observer of one model runner. It wraps the runner's forward, shape check, bucket lookups and sampling.

    `compiled` returns what this process has compiled. If `compiled` is None, the first forward of a shape counts as one
    recompilation. `report_compiles` receives the recipes of each forward and part of a step during serving, except if
    Dynamo made a graph. `recompilations` counts the recompilations of all parts.
    """

    def __init__(
        self,
        runner: Any,
        compiled: Compiles | None = None,
        report_compiles: Callable[[CompileTotals], None] = lambda _: None,
    ) -> None:
        self._manager = manager = runner.bucketing_manager
        # If the blocks of attention are smaller than the blocks of the cache, a forward counts its context in attention
        # blocks. Buckets count in cache blocks.
        block_size = int(runner.block_size)
        self._block_ratio = max(1, block_size // int(getattr(runner, "attn_block_size", None) or block_size))
        self._plugin_check, self._compiled, self._report_compiles = runner._check_config, compiled, report_compiles
        self._plugin_find_prompt, self._plugin_find_decode = manager.find_prompt_bucket, manager.find_decode_bucket
        self._known_shapes: set[ForwardShape] = set()
        self._plugin_can_merge, self._found_bucket = runner._can_merge_prefill_contents, None
        self._current: _Forward | None = None
        self._refuses_cold = False
        self._assigned_compiles = NOTHING
        self._runner, self.recompilations = runner, StepCompiles()
        self._part: tuple[StepPart, str] | None = None
        self._part_compiles: dict[tuple[StepPart, str], CompileTotals] = {}
        self._step_forwards: list[_Forward] = []
        self._queued_forwards: list[_Forward] = []
        self._prompt_lookups: list[tuple[int, int, int]] = []
        self._decode_lookups: list[tuple[int, int]] = []
        self._verified_sequences: int | None = None
        self._called: set[str] = set()
        self._plugin_execute, runner._execute_model_generic = runner._execute_model_generic, self._execute_forward
        if (sample := getattr(runner, "_run_sampling", None)) is not None:
            self._plugin_sample, runner._run_sampling = sample, self._run_sampling
        runner._check_config = self._check_config
        runner._can_merge_prefill_contents = self._can_merge
        manager.find_prompt_bucket, manager.find_decode_bucket = self._find_prompt_bucket, self._find_decode_bucket

    @property
    def current_shape(self) -> ForwardShape | None:
        """The shape of the running forward, or of the last one."""
        return self._current.padded_shape if self._current else None

    def reset_current_shape(self) -> None:
        """Forget the shape of the last forward, because the next forward may not call the shape check."""
        self._current = None

    def find_uncalled(self, phase: str) -> list[str]:
        """Return the wrapped methods that the plugin has not called so far, although batches of `phase` ran."""
        lookup = "find_prompt_bucket" if phase == BucketPhase.PROMPT else "find_decode_bucket"
        sampling = ("_run_sampling",) if hasattr(self._runner, "_run_sampling") else ()
        return [name for name in ("_check_config", lookup, *sampling) if name not in self._called]

    def record_graph_use(self, uses_graph: bool) -> None:
        """Record whether the current forward uses a graph."""
        if self._current:
            self._current.has_graph = uses_graph

    def start_serving(self, *, refuses_cold: bool) -> None:
        """Start counting. With `refuses_cold`, raise ColdShape before a forward whose shape has never run."""
        self._refuses_cold, self._assigned_compiles = refuses_cold, self._read_compiles()

    def step(self, execute: Callable[[], Any]) -> tuple[Any, list[Batch]]:
        """Run `execute`, a step of serving. Return its answer and the batches that the plugin formed in this step."""
        previous, self._step_forwards, self._prompt_lookups, self._decode_lookups = self._queued_forwards, [], [], []
        self._part_compiles = defaultdict(CompileTotals)
        self._part = StepPart.OTHER, ""
        try:
            answer = execute()
            self._assign_compiles()
        finally:
            self._part = None
        # An answer with `get_output` is read after the next step has begun. Until then, the card may still compile for
        # this step.
        self._queued_forwards = self._step_forwards if hasattr(answer, "get_output") else []
        late_batches = [recompilation for forward in previous if (recompilation := self._late_recompilation(forward))]
        for forward in previous if self._queued_forwards else [*previous, *self._step_forwards]:
            self._report(forward.compile_totals)
        for (part, kind), compile_totals in self._part_compiles.items():
            self.recompilations.add(part, kind, compile_totals)
            self._report(compile_totals)
        return answer, [*late_batches, *self._collect_batches()]

    def _report(self, compile_totals: CompileTotals) -> None:
        if not compile_totals.graphs:
            self._report_compiles(compile_totals)

    @contextmanager
    def _measure(self, part: StepPart) -> Iterator[None]:
        """Assign the compiles of the block to this part of the step. Outside of a step, nothing is assigned."""
        if self._part is None:
            yield
            return
        self._assign_compiles()
        self._part = part, ""
        try:
            yield
            self._assign_compiles()
        finally:
            self._part = StepPart.OTHER, ""

    def _execute_forward(self, *args: Any, **options: Any) -> Any:
        with self._measure(StepPart.FORWARD):
            return self._plugin_execute(*args, **options)

    def _run_sampling(
        self,
        batch_changed: bool,
        logits_device: Any,
        request_ids: Any = None,
        pad_to: int | None = None,
        logits_requests: Any = None,
    ) -> Any:
        self._called.add("_run_sampling")
        with self._measure(StepPart.SAMPLER):
            answer = self._plugin_sample(batch_changed, logits_device, request_ids, pad_to, logits_requests)
            if self._part:
                self._part = StepPart.SAMPLER, describe_requests(self._runner, logits_requests or request_ids or ())
            return answer

    def _collect_batches(self) -> list[Batch]:
        prompts = [forward for forward in self._step_forwards if forward.padded_shape.phase is BucketPhase.PROMPT]
        # Use the last lookups. The plugin looks up each prompt batch when the batch is formed; earlier lookups belong
        # to merges that the plugin only considered.
        prompt_lookups = iter(self._prompt_lookups[len(self._prompt_lookups) - len(prompts) :])
        for forward in self._step_forwards:
            forward.batch = self._make_batch(forward, prompt_lookups)
        return [forward.batch for forward in self._step_forwards if forward.batch]

    def _make_batch(self, forward: _Forward, prompt_lookups: Any) -> Batch:
        phase, bucket, verifies = forward.padded_shape
        if phase is BucketPhase.PROMPT:
            real_shape = (phase, *next(prompt_lookups, bucket))
        else:
            # The plugin looks up a decode batch twice: first by its number of sequences, then by the number of blocks
            # that it reads.
            decode_lookups = self._decode_lookups or [(bucket.batch_size, bucket.num_blocks)]
            # With drafts, every sequence has the same number of rows: the number that the sequence with the most drafts
            # needs.
            rows = decode_lookups[0][0] * (
                bucket.batch_size // self._verified_sequences if verifies and self._verified_sequences else 1
            )
            real_shape = (phase, rows, bucket.query_len, decode_lookups[min(1, len(decode_lookups) - 1)][1])
        compiles = int(forward.compile_totals.is_recompilation) if self._compiled else int(not forward.ran_before)
        self.recompilations.add(StepPart.FORWARD, "", forward.compile_totals)
        return Batch(real_shape, PaddedRun(bucket, forward.ran_before and forward.has_graph and not compiles), compiles)

    def _late_recompilation(self, forward: _Forward) -> Batch | None:
        """Return the recompilation of a forward that was observed after the forward was counted; otherwise None."""
        batch = forward.batch
        if batch is None or batch.compiles or not forward.compile_totals.is_recompilation:
            return None
        self.recompilations.add(StepPart.FORWARD, "", forward.compile_totals)
        return Batch(batch.real_shape, PaddedRun(batch.padded_run.bucket, warm=False), compiles=1, batches=0)

    def _assign_compiles(self) -> None:
        """Assign the compiles since the last call to one forward or to the running part of the step."""
        compiles = self._read_compiles() - self._assigned_compiles
        if self._part is None or not (compiles.recipes or compiles.graphs):
            return
        self._assigned_compiles += compiles
        # The card queues forwards, so an earlier forward may be the one that compiles. Attribute the compile to the
        # first forward with an unknown shape.
        forwards = [*self._queued_forwards, *self._step_forwards]
        cold_forwards = [
            forward for forward in forwards if not forward.ran_before and not forward.compile_totals.is_recompilation
        ]
        if cold_forwards:
            cold_forwards[0].compile_totals += compiles
        elif self._part[0] is StepPart.FORWARD and self._step_forwards:
            self._step_forwards[-1].compile_totals += compiles
        else:
            self._part_compiles[self._part] += compiles

    def _read_compiles(self) -> CompileTotals:
        return self._compiled() if self._compiled else NOTHING

    def _check_config(
        self, batch_size: int, seq_len: int, num_blocks: int, attn_metadata: Any, warmup_mode: bool
    ) -> None:
        self._called.add("_check_config")
        is_prompt = bool(attn_metadata.is_prompt)
        # For a prompt, the plugin passes the context blocks of the whole batch. Divide by the batch size to get the
        # blocks of one row.
        blocks = num_blocks // batch_size // self._block_ratio if is_prompt else num_blocks
        bucket = Bucket(int(batch_size), int(seq_len), int(blocks))
        verifies = not is_prompt and self._verified_sequences is not None
        padded_shape = ForwardShape(BucketPhase.PROMPT if is_prompt else BucketPhase.DECODE, bucket, verifies)
        ran_before = padded_shape in self._known_shapes
        if self._refuses_cold and not ran_before and not warmup_mode:
            raise ColdShape(
                f"{padded_shape.phase} shape {tuple(bucket)} was not warmed up, but VLLM_FULL_WARMUP is true"
            )
        self._current = _Forward(padded_shape, ran_before)
        self._known_shapes.add(padded_shape)
        if not warmup_mode:
            self._step_forwards.append(self._current)
        self._plugin_check(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)

    def _can_merge(self, batch: Any, prompt: Any) -> bool:
        """Return whether the plugin may add a prompt to a batch, which requires a planned bucket for both together."""
        self._found_bucket = None
        return bool(self._plugin_can_merge(batch, prompt)) and self._found_bucket in self._manager.prompt_buckets

    def _find_prompt_bucket(self, batch_size: int, seq_len: int, ctx: int = 0) -> Any:
        self._called.add("find_prompt_bucket")
        # JSON does not support the numbers of numpy.
        self._prompt_lookups.append((int(batch_size), int(seq_len), int(ctx)))
        self._found_bucket = self._plugin_find_prompt(batch_size, seq_len, ctx)
        return self._found_bucket

    def _find_decode_bucket(self, batch_size: int, num_blocks: int, *seeds: bool, **options: Any) -> Any:
        self._called.add("find_decode_bucket")
        self._decode_lookups.append((int(batch_size), int(num_blocks)))
        bucket = self._plugin_find_decode(batch_size, num_blocks, *seeds, **options)
        if seeds:
            # The plugin passes `seeds` only in the first lookup of a decode batch, which uses the number of sequences
            # and whether they have drafts.
            self._verified_sequences = int(bucket[0]) if seeds[0] else None
        return bucket


class GraphPolicy:
    """A replacement for the decision of the plugin's model runner whether a forward may use a graph."""

    def __init__(self, runner: Any, forwards: ForwardObserver) -> None:
        self._plugin_use_graphs, self._forwards = runner._use_graphs, forwards
        self._capturing = False
        self._graph_used = False
        self._captured_shapes: set[ForwardShape | None] = set()
        runner._use_graphs = self._use_graphs

    def capture(self, forward: Callable[[], None]) -> bool:
        """Run `forward` with graphs. Return False if the plugin uses no graph, for example for very long prompts."""
        self._forwards.reset_current_shape()
        self._capturing, self._graph_used = True, False
        try:
            forward()
        finally:
            self._capturing = False
        self._captured_shapes.add(self._forwards.current_shape)
        return self._graph_used

    def _use_graphs(self, attn_metadata: object, batch_size: int) -> bool:
        # The plugin checks a forward's shape before this call, in the same thread. By default it captures a graph at
        # the first forward of any shape. A compile would then already capture a graph, and a bucket without a graph
        # would capture one during serving, for which the memory split has no room.
        allowed = self._capturing or self._forwards.current_shape in self._captured_shapes
        self._graph_used = allowed and bool(self._plugin_use_graphs(attn_metadata, batch_size))
        self._forwards.record_graph_use(self._graph_used)
        return self._graph_used


class FixedBuckets(list[tuple[int, ...]]):
    """The padding targets of the plugin's model runner: the buckets of the plan. The plugin cannot add buckets."""

    # The plugin adds every fallback shape to its list. It would then pad later batches to the fallback shape and not to
    # a bucket with a graph.

    def append(self, bucket: tuple[int, ...]) -> None:
        """Do nothing, so that a batch without a bucket runs at its fallback shape each time."""
