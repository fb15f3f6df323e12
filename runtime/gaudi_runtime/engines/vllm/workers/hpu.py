"""The verbs of a worker on a Gaudi card, over the model runner of vLLM's plugin.

Plain data in and out, one bucket a call. The orchestrator owns order, budget and progress; here one verb does one
thing (docs/vllm.md).

In HPU-graph mode a gate decides whether a forward may use a graph.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.ranks import Outcome
from gaudi_runtime.engines.vllm.workers.capabilities import DEFRAGMENTER, PREPARED, Bridge, find_capabilities, losses
from gaudi_runtime.engines.vllm.workers.observed_shapes import MetShapes, batches_of, scheduled

Forward = Callable[[], None]


class HpuVerbs:
    """Drives one worker, from its one thread, between the allocation of the KV cache and the first request."""

    def __init__(self, runner: Any, bridge: Bridge, wanted: ExecutionMode | None = None) -> None:
        """`wanted` is the configured mode. Raises a RuntimeStartError when this plugin cannot be driven."""
        self._runner, self._bridge, self._wanted = runner, bridge, wanted
        self._offered = find_capabilities(runner, bridge)
        self._gate = GraphGate(runner) if self._offered.mode is ExecutionMode.HPU_GRAPHS else None
        self._known: set[Any] = set()
        self._met: MetShapes | None = None
        self._lost: str | None = None

    def describe(self) -> dict[str, object]:
        """Execution mode, whether it has graphs, and the degradations as sentences."""
        told = list(self._offered.degradations)
        # What the worker really runs in counts: an image or a user may have set the bridge's variable.
        found, wanted = self._offered.mode, self._wanted
        if wanted is not None and wanted is not found:
            modes = f"{as_in_spec(found)} and not in {as_in_spec(wanted)}"
            told.insert(0, f"the worker runs in mode {modes}: something else set it")
        return {
            "execution_mode": self._offered.mode.value,
            "captures_graphs": self._offered.captures_graphs,
            "degradations": told,
        }

    def memory(self) -> dict[str, int]:
        """Device memory now, free and total, in bytes."""
        # Work that is only queued has not taken its memory yet.
        self._bridge.synchronize()
        free, total = self._bridge.memory()
        return {"free": int(free), "total": int(total)}

    def profile(self) -> dict[str, int]:
        """What the plugin left: memory, margin and KV cache in bytes, KV blocks, tokens of a block."""
        return {
            **self.memory(),
            "margin": self._margin(),
            "kv_cache": self._kv_cache(),
            "kv_blocks": int(self._runner.bucketing_manager.num_hpu_blocks),
            "block_size": int(self._runner.block_size),
        }

    def plan(self, prompt: Sequence[Sequence[int]], decode: Sequence[Sequence[int]]) -> dict[str, object]:
        """Hand our buckets to the plugin and let it prepare itself; what is lost beside what `describe` says."""
        manager = self._runner.bucketing_manager
        prompts, decodes = (sorted((b, q, n) for b, q, n in each) for each in (prompt, decode))
        # In place of the plugin's own planner: it also derives Dynamo's limit from the length of these lists.
        manager.generate_prompt_buckets = partial(setattr, manager, "prompt_buckets", prompts)
        manager.generate_decode_buckets = partial(setattr, manager, "decode_buckets", decodes)
        # Never unset: a second call by vLLM must not warm up behind our back.
        self._runner.skip_warmup = True
        self._runner.warmup_model()
        # Once more: a release may prepare itself without planning.
        manager.prompt_buckets, manager.decode_buckets = prompts, decodes
        manager._fallback_max_ctx = max((blocks for _, _, blocks in decodes), default=0)
        lost = losses(self._runner, PREPARED) or losses(self._runner.defragmenter, DEFRAGMENTER)
        return {"prompt": len(prompts), "decode": len(decodes), "degradations": lost}

    def warm(self, phase: str, bucket: Sequence[int]) -> Outcome:
        """Compile one bucket by a dummy batch of its shape, without capturing a graph."""
        return self._run(phase, bucket, self._compile)

    def capture(self, phase: str, bucket: Sequence[int]) -> Outcome:
        """Run one bucket so that its graph is kept, if there is memory beyond the margin."""
        if not self._offered.captures_graphs:
            raise ValueError(f"execution mode {self._offered.mode} has no graphs to capture")
        free, margin = self.memory()["free"], self._margin()
        # The plugin is not even asked: it does not clean up after a forward that ran out of memory.
        if free <= margin:
            return _refused(f"{free} bytes are free and {margin} are kept as margin")
        outcome = self._run(phase, bucket, self._gate.capture if self._gate else _graphed)
        graphed = getattr(self._runner, "graphed_buckets", None)
        if outcome["graph"] and graphed is not None:
            graphed.add((*bucket, phase == BucketPhase.PROMPT))
        return outcome

    def sampler(self) -> dict[str, bool]:
        """Run the plugin's sampler warm-up once, for all its batch sizes."""
        return self._optional(self._runner, "warmup_sampler")

    def defragmenter(self) -> dict[str, bool]:
        """Run the plugin's block swaps of every size."""
        return self._optional(getattr(self._runner, "defragmenter", None), "warmup")

    def start_serving(self) -> None:
        """Warm-up is over: a defragmenter without its traces, and what is met from here on counts."""
        used = getattr(self._runner, "defragmenter", None)
        # A new one of its class, without the traces that the swaps of warm-up left in it.
        if used is not None and not losses(used, DEFRAGMENTER[1:]):
            self._runner.defragmenter = type(used)(used.kv_caches, used.block_size)
        self._known, self._met = self._seen(), MetShapes()

    def met(self, step: Any) -> None:
        """Count a step of serving, which the plugin runs as one batch of decodes and some of prompts."""
        if self._met is None:
            return
        prompts = int(getattr(self._runner, "max_prefill_batch_size", 1))
        for shape in batches_of(scheduled(step), int(self._runner.block_size), prompts):
            self._met.met(shape)

    def counters(self) -> dict[str, list[list[Any]]]:
        """Shapes met since the last look, and those that the plugin had never seen (MetShapes.take)."""
        if self._met is None:
            return {"met": [], "compiled": []}
        seen = self._seen()
        for phase, *shape in sorted(seen - self._known):
            self._met.compiled((str(phase), *shape))
        self._known = seen
        return self._met.take()

    def _run(self, phase: str, bucket: Sequence[int], execute: Callable[[Forward], bool]) -> Outcome:
        """One bucket as a dummy batch; `execute` is handed its forward and answers whether a graph was kept.

        Raises what the plugin raises, except that the device ran out of memory.
        """
        if self._lost:
            return _refused(self._lost)
        shape = tuple(bucket)
        scenario = (shape, None) if phase == BucketPhase.PROMPT else (None, shape)
        before = self.memory()["free"]
        try:
            graph = execute(partial(self._runner._prepare_dummy_scenario, *scenario))
        except RuntimeError as error:
            # The bridge raises plain RuntimeErrors; their text is all there is to judge by.
            if "memory" not in str(error).lower():
                raise
            # No further dummy batch in this process: the plugin does not clean up after a forward that failed.
            self._lost = f"the device ran out of memory at {phase} bucket {shape} ({error})"
            self._runner.requests, self._runner.scheduler_output = {}, None
            return _refused(self._lost)
        return Outcome(bytes=max(0, before - self.memory()["free"]), graph=graph, out_of_memory=None)

    def _compile(self, forward: Forward) -> bool:
        with self._bridge.compile_only() if self._bridge.compile_only else nullcontext():
            forward()
        return False

    def _optional(self, owner: object, verb: str) -> dict[str, bool]:
        run = getattr(owner, verb, None)
        if run is not None:
            run()
        return {"done": run is not None}

    def _margin(self) -> int:
        return int(getattr(self._runner, "mem_margin", None) or 0)

    def _kv_cache(self) -> int:
        """Bytes of all layers, each a tuple of tensors in which some are missing."""
        layers = getattr(self._runner, "kv_caches", None) or ()
        return sum(each.numel() * each.element_size() for layer in layers for each in layer if each is not None)

    def _seen(self) -> set[Any]:
        return set(getattr(self._runner, "seen_configs", ()))


def _refused(reason: str) -> Outcome:
    """Of a bucket for which there is no memory."""
    return Outcome(bytes=0, graph=False, out_of_memory=reason)


def _graphed(forward: Forward) -> bool:
    """With torch.compile the compiled forward is the graph: it runs once more, and what that takes is measured."""
    forward()
    return True


class GraphGate:
    """Stands before the runner's own answer; shapes are (batch size, query tokens, KV blocks) as the plugin counts."""

    def __init__(self, runner: Any) -> None:
        self._check, self._ask = runner._check_config, runner._use_graphs
        self._shape: Bucket | None = None
        self._capturing = False
        self._granted = False
        self._graphed: set[Bucket | None] = set()
        runner._check_config, runner._use_graphs = self._check_config, self._use_graphs

    def capture(self, forward: Forward) -> bool:
        """Run `forward` with graphs; False when the plugin would not use one, as for prompts above its own limit."""
        self._shape, self._capturing, self._granted = None, True, False
        try:
            forward()
        finally:
            self._capturing = False
        self._graphed.add(self._shape)
        return self._granted

    def _check_config(
        self, batch_size: int, seq_len: int, num_blocks: int, attn_metadata: object, warmup_mode: bool
    ) -> None:
        # The plugin checks a forward's shape before it asks for a graph, in the same thread.
        self._shape = Bucket(batch_size, seq_len, num_blocks)
        self._check(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)

    def _use_graphs(self, attn_metadata: object, batch_size: int) -> bool:
        # The plugin captures at the first forward of any shape: compiling would capture already, and serving a bucket
        # that was left without a graph would capture it then, in memory that the split does not have.
        allowed = self._capturing or self._shape in self._graphed
        self._granted = allowed and bool(self._ask(attn_metadata, batch_size))
        return self._granted
