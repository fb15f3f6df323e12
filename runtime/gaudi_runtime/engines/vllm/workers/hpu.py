"""The calls of a worker on a Gaudi card, which use the model runner of vLLM's plugin.

Arguments and answers are plain data, one bucket per call. The warm-up runner in the runtime's process controls order,
budget and progress; each call here does one thing (docs/internals/vllm.md).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from gaudi_runtime.catalog.release_pairs import RELEASES
from gaudi_runtime.contract.base import capitalize_contract_word
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase, VisionBucket
from gaudi_runtime.engines.vllm.ranks import BucketOutcome
from gaudi_runtime.engines.vllm.start_errors import is_out_of_memory
from gaudi_runtime.engines.vllm.workers.bridge import Bridge
from gaudi_runtime.engines.vllm.workers.capabilities import (
    DEFRAGMENTER,
    PREPARED,
    REMADE,
    UNBOUNDED,
    VISION_BUCKETS,
    find_capabilities,
    find_degradations,
    has_windows,
    vision_degradations,
)
from gaudi_runtime.engines.vllm.workers.compile_times import CompileTimes
from gaudi_runtime.engines.vllm.workers.dummy_batches import DummyBatches, Forward
from gaudi_runtime.engines.vllm.workers.forwards import ColdShape, FixedBuckets, ForwardObserver, GraphPolicy
from gaudi_runtime.engines.vllm.workers.observed_shapes import ObservedShapes, Row
from gaudi_runtime.engines.vllm.workers.speculative import draft_tokens
from gaudi_runtime.engines.vllm.workers.vision import VisionTower
from gaudi_runtime.errors import EngineUnsupported
from gaudi_runtime.traffic.serving_histogram import SERVING

log = logging.getLogger(__name__)

NO_VISION = (
    "no vision bucket is planned, so the first image of every size is slow. Set spec.model.itemsPerPrompt. If the "
    "plugin has no vision buckets for the model, also set VLLM_MULTIMODAL_RESOLUTIONS in spec.engine.settings"
)
RAN_AS = "vllm-gaudi runs this bucket as"
REPORT = "The runtime and the plugin count shapes differently. Please report this defect of the runtime"


class HpuVerbs:
    """The calls of a worker on a Gaudi card, from one thread, between the allocation of the KV cache and serving."""

    def __init__(
        self,
        runner: Any,
        bridge: Bridge,
        configured_mode: ExecutionMode | None = None,
        fail_on_cold_shapes: bool = False,
        leave_note: Callable[[str], None] = lambda _: None,
        run_vision: bool = False,
        samples: bool = True,
    ) -> None:
        """Create the calls. `leave_note` writes an error of this rank for the leader.

        `samples` is False for a rank of a pipeline stage that is not the last, because it samples no tokens. With
        `run_vision`, the warm-up runs the vision tower instead of only compiling it. Raises a RuntimeStartError if this
        plugin is not supported.
        """
        self._leave_note = leave_note
        self._runner, self._bridge, self._configured_mode = runner, bridge, configured_mode
        self._fail_on_cold_shapes, self._samples = fail_on_cold_shapes, samples
        self._capabilities = find_capabilities(runner, bridge)
        mode = self._capabilities.mode
        compiled = bridge.compiled
        self._times = CompileTimes()
        self._dummy_batches = DummyBatches(runner)
        has_vision = getattr(runner, "supports_mm_inputs", False) and not vision_degradations(runner)
        self._tower = VisionTower(runner, compiled) if has_vision else None
        self._compiles_vision = mode is ExecutionMode.TORCH_COMPILE and not run_vision
        self._forwards = ForwardObserver(
            runner,
            self._tower.compiles_without_tower if self._tower and compiled else compiled,
            partial(self._times.add, SERVING),
        )
        self._graph_policy = GraphPolicy(runner, self._forwards) if mode is ExecutionMode.HPU_GRAPHS else None
        self._seed_buckets: FixedBuckets | None = None
        self._observed_shapes: ObservedShapes | None = None
        self._swaps_warm = False
        self._memory_error: str | None = None

    def describe(self) -> dict[str, object]:
        """Return the execution mode, the model's features, and the degradations as sentences."""
        degradations = list(self._capabilities.degradations)
        # Report the worker's real mode, because the image or a user may have set the bridge's variable to another mode.
        mode, configured_mode = self._capabilities.mode, self._configured_mode
        if configured_mode is not None and configured_mode is not mode:
            modes = f"{capitalize_contract_word(mode)} instead of {capitalize_contract_word(configured_mode)}"
            degradations.insert(
                0, f"the worker runs in mode {modes}, because a variable of the image or of engine.env sets this mode"
            )
        return {
            "execution_mode": self._capabilities.mode.value,
            "captures_graphs": self._capabilities.captures_graphs,
            "draft_tokens": draft_tokens(self._runner),
            "windowed": has_windows(self._runner),
            "degradations": degradations,
        }

    def memory(self) -> dict[str, int]:
        """Return the current device memory, free and total, in bytes."""
        # Wait for the card first, because queued work has not allocated its memory yet.
        self._bridge.synchronize()
        free, total = self._bridge.memory()
        return {"free": int(free), "total": int(total)}

    def profile(self) -> dict[str, int]:
        """Return free memory, margin and KV cache in bytes, and the number and size of the plugin's KV blocks."""
        return {
            **self.memory(),
            "margin": self._margin(),
            "kv_cache": self._kv_cache_bytes(),
            **self._kv_blocks(),
        }

    def _kv_blocks(self) -> dict[str, int]:
        """Return the number and sizes of KV blocks in the plugin. For some models, other sizes are configured."""
        runner = self._runner
        size = int(runner.block_size)
        decode_block_size = int(getattr(runner, "attn_block_size", None) or size)
        # Releases after 0.26 use this rule. Release 0.26 does not limit the blocks of any model.
        unbounded = decode_block_size != size or any(getattr(runner, name, None) for name in UNBOUNDED)
        manager = runner.bucketing_manager
        has_chunk_size = getattr(manager, "mamba_chunk_size_is_explicit", False)
        return {
            "kv_blocks": int(manager.num_hpu_blocks),
            "block_size": size,
            "decode_block_size": decode_block_size,
            "bounded": not unbounded,
            "query_step": int(manager.mamba_chunk_size) if has_chunk_size else 1,
        }

    def plan(
        self, prompt: Sequence[Sequence[int]], decode: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]] = ()
    ) -> dict[str, object]:
        """Pass the plan's buckets to the plugin, and let the plugin prepare itself. Return further degradations.

        `seeds` are the decode buckets that are used to pad sequences with drafts. Without speculative decoding, `seeds`
        is empty.
        """
        manager = self._runner.bucketing_manager
        prompt_buckets, decode_buckets = _fixed_buckets(prompt), _fixed_buckets(decode)
        if seeds:
            self._seed_buckets = manager.seed_decode_buckets = _fixed_buckets(seeds)
        # Replace the plugin's own planner. `warmup_model` also derives Dynamo's recompile limit from the length of
        # these lists.
        manager.generate_prompt_buckets = partial(setattr, manager, "prompt_buckets", prompt_buckets)
        manager.generate_decode_buckets = partial(setattr, manager, "decode_buckets", decode_buckets)
        # Never reset `skip_warmup`. Otherwise a second call of `warmup_model` by vLLM would start the plugin's own
        # warm-up.
        self._runner.skip_warmup = True
        self._runner.warmup_model()
        # Set the buckets also directly, because some releases prepare themselves without a call of the planner.
        manager.prompt_buckets, manager.decode_buckets = prompt_buckets, decode_buckets
        manager._fallback_max_ctx = max((blocks for _, _, blocks in decode_buckets), default=0)
        degradations = find_degradations(self._runner, PREPARED)
        degradations = degradations or find_degradations(self._runner.defragmenter, DEFRAGMENTER)
        planned = {"prompt": len(prompt_buckets), "decode": len(decode_buckets), "degradations": degradations}
        return {**planned, **self._plan_vision(degradations)} if self._tower else planned

    def use_warm(
        self, prompt: Sequence[Sequence[int]], decode: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]] = ()
    ) -> dict[str, object]:
        """Restrict the plugin's bucket lookup to these buckets, which are the warm part of the plan."""
        # Keep `_fallback_max_ctx` at the value of the whole plan. The plugin shortens the context of a larger batch to
        # this value.
        manager = self._runner.bucketing_manager
        manager.prompt_buckets, manager.decode_buckets = _fixed_buckets(prompt), _fixed_buckets(decode)
        if seeds:
            self._seed_buckets = manager.seed_decode_buckets = _fixed_buckets(seeds)
        return {}

    def _plan_vision(self, degradations: list[str]) -> dict[str, object]:
        problems = find_degradations(getattr(self._runner.get_model(), "vision_bucket_manager", None), VISION_BUCKETS)
        buckets = self._tower.find_buckets() if self._tower and not problems else []
        new_degradations = problems or ([] if buckets else [NO_VISION])
        return {"vision": [list(bucket) for bucket in buckets], "degradations": [*degradations, *new_degradations]}

    def warm_vision(self, modality: str, width: int, height: int, items: int) -> BucketOutcome:
        """Run the vision tower once with `items` dummy inputs of this size."""
        assert self._tower is not None  # noqa: S101 - `plan` has returned its buckets
        run = partial(self._tower.run, VisionBucket(modality, width, height, items))
        free_before = self.memory()["free"]
        try:
            # Use the same rule as the plugin. With torch.compile, compiling is enough. In other modes only a real run
            # creates graphs and recipes.
            if self._compiles_vision:
                self._compile(run)
            else:
                run()
        except Exception as error:
            if not is_out_of_memory(str(error)):
                # For some models the plugin cannot create the dummy input. These models can still serve, so the error
                # is only reported.
                log.exception("The vision tower cannot run %s %dx%dx%d", modality, width, height, items)
                reason = f"vllm-gaudi cannot run this bucket: {type(error).__name__}: {error}"
                return BucketOutcome(bytes=0, graph=False, out_of_memory=None, ran_as=reason)
            # Only the vision tower is out of memory. Its run leaves no dummy request behind, so later calls do not
            # fail.
            reason = f"the device ran out of memory at vision bucket {modality} {width}x{height}x{items} ({error})"
            self._leave_note(reason)
            return _out_of_memory_outcome(reason)
        return BucketOutcome(bytes=max(0, free_before - self.memory()["free"]), graph=False, out_of_memory=None)

    def warm(self, phase: str, bucket: Sequence[int]) -> BucketOutcome:
        """Compile one bucket by running a dummy batch of its shape, without capturing a graph."""
        with self._measure_compile_time("warm"):
            return self._run_bucket(phase, bucket, self._compile)

    def execute(self, phase: str, bucket: Sequence[int]) -> BucketOutcome:
        """Run one compiled bucket without a graph, so that the card allocates its workspace."""
        return self._run_bucket(phase, bucket, _run_compiled)

    def capture(self, phase: str, bucket: Sequence[int]) -> BucketOutcome:
        """Run one bucket and capture its graph."""
        if not self._capabilities.captures_graphs:
            raise ValueError(f"execution mode {self._capabilities.mode} has no graphs to capture")
        with self._measure_compile_time("capture"):
            execute = self._graph_policy.capture if self._graph_policy else _run_compiled
            outcome = self._run_bucket(phase, bucket, execute)
        graphed = getattr(self._runner, "graphed_buckets", None)
        if outcome["graph"] and graphed is not None:
            graphed.add((*bucket, phase == BucketPhase.PROMPT))
        return outcome

    def sampler(self) -> dict[str, bool]:
        """Run the sampler warm-up for all batch sizes, and compile the step for a chunk of a prompt."""
        with self._measure_compile_time("sampler"):
            answer = self._call_if_present(self._runner, "warmup_sampler")
        if not self._memory_error:
            self._dummy_batches.run_prompt_chunk(uses_drafts=bool(self._seed_buckets))
            self._dummy_batches.run_missing_sizes()
        return answer

    def defragmenter(self) -> dict[str, bool]:
        """Run the plugin's block swaps of every size."""
        self._swaps_warm = True
        with self._measure_compile_time("defragmenter"):
            return self._call_if_present(getattr(self._runner, "defragmenter", None), "warmup")

    def start_serving(self) -> None:
        """End the warm-up: reset the defragmenter and start counting."""
        defragmenter = getattr(self._runner, "defragmenter", None)
        # Replace the defragmenter with a new one of the same class, because the swaps of warm-up changed the state of
        # the old one.
        if defragmenter is not None and not find_degradations(defragmenter, REMADE):
            self._runner.defragmenter = type(defragmenter)(defragmenter.kv_caches, defragmenter.block_size)
            # The new defragmenter has no graphs. Without this warm-up, requests would wait while each graph is
            # captured.
            if self._swaps_warm and getattr(defragmenter, "graphed", False):
                self._call_if_present(self._runner.defragmenter, "warmup")
        self._forwards.start_serving(refuses_cold=self._fail_on_cold_shapes and self._capabilities.captures_graphs)
        self._observed_shapes = ObservedShapes()
        if self._tower:
            self._tower.start_serving()

    def step(self, execute: Callable[[], Any]) -> Any:
        """Execute a step of serving and count its batches."""
        if self._observed_shapes is None:
            return execute()
        try:
            answer, batches = self._forwards.step(execute)
        except ColdShape as error:
            # Write a note, because vLLM ends after this error and reports only that a process has died.
            self._leave_note(str(error))
            raise
        for batch in batches:
            self._observed_shapes.count_batch(*batch)
        return answer

    def counters(self) -> dict[str, list[Row]]:
        """Return the counts of shapes and compiles since the last call."""
        counts = {"met": self._observed_shapes.pop_rows() if self._observed_shapes else []}
        if times := self._times.pop_rows():
            counts["compile_times"] = times
        if recompilations := self._forwards.recompilations.pop_rows():
            counts["step_compiles"] = recompilations
        return {**counts, "vision": self._tower.pop_rows()} if self._tower else counts

    def _run_bucket(self, phase: str, bucket: Sequence[int], execute: Callable[[Forward], bool]) -> BucketOutcome:
        """Run one bucket as dummy batches. `execute` runs a forward and returns whether a graph was captured.

        Raises the plugin's errors, except out-of-memory errors, which are part of the outcome.
        """
        # After one dummy batch has run out of memory, this process runs no further dummy batches.
        if self._memory_error:
            return _out_of_memory_outcome(self._memory_error)
        shape = tuple(bucket)
        forwards = self._dummy_batches.batches_for_bucket(phase, shape, self._seed_buckets or ())
        if not forwards:
            # No request is ever padded to this bucket, so there is nothing to compile.
            return BucketOutcome(bytes=0, graph=self._capabilities.captures_graphs, out_of_memory=None)
        graphs: list[bool] = []
        ran_shapes: list[tuple[int, ...]] = []
        free_before = self.memory()["free"]
        try:
            for forward in forwards:
                graphs.append(execute(forward))
                self._refuse_unobserved(phase)
                ran_shapes += self._unexpected_shapes(shape)
        except RuntimeError as error:
            # Check the text of the error, because the bridge raises a plain RuntimeError for every fault.
            if not is_out_of_memory(str(error)):
                raise
            self._memory_error = f"the device ran out of memory at {phase} bucket {shape} ({error})"
            self._dummy_batches.remove_requests()
            self._leave_note(self._memory_error)
            return _out_of_memory_outcome(self._memory_error)
        if ran_shapes:
            # Skip the bucket and report it. One such bucket must not stop the start of the server.
            return BucketOutcome(bytes=0, graph=False, out_of_memory=None, ran_as=f"{RAN_AS} {ran_shapes[0]}. {REPORT}")
        return BucketOutcome(bytes=max(0, free_before - self.memory()["free"]), graph=all(graphs), out_of_memory=None)

    def _refuse_unobserved(self, phase: str) -> None:
        """Raise EngineUnsupported if the plugin ran a batch without the methods that this runtime observes."""
        for name in self._forwards.find_uncalled(phase):
            # With pipeline parallelism, only the ranks of the last stage sample tokens.
            if name != "_run_sampling" or self._samples:
                raise EngineUnsupported(
                    f"vllm-gaudi ran a {phase} bucket without a call of {name}, so this runtime cannot observe which "
                    f"graphs run. This runtime supports {RELEASES}. Use an image with these releases."
                )

    def _unexpected_shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return a list with the shape that ran if it differs from `shape`; otherwise an empty list."""
        current_shape = self._forwards.current_shape
        return [tuple(current_shape.bucket)] if current_shape is not None and current_shape.bucket != shape else []

    @contextmanager
    def _measure_compile_time(self, stage: str) -> Iterator[None]:
        """Measure the compile time of the block, if the bridge has a metric for it."""
        totals_before = self._bridge.compiled() if self._bridge.compiled else None
        yield
        if self._bridge.compiled and totals_before:
            # Synchronize the device first, because all compilations have ended after the synchronization.
            self._bridge.synchronize()
            self._times.add(stage, self._bridge.compiled() - totals_before)

    def _compile(self, forward: Forward) -> bool:
        with self._bridge.compile_only() if self._bridge.compile_only else nullcontext():
            forward()
        return False

    def _call_if_present(self, owner: object, verb: str) -> dict[str, bool]:
        run = getattr(owner, verb, None)
        if run is not None:
            run()
        return {"done": run is not None}

    def _margin(self) -> int:
        return int(getattr(self._runner, "mem_margin", None) or 0)

    def _kv_cache_bytes(self) -> int:
        """Return the bytes of the KV cache of all layers. Layers may share a storage, and each storage counts once."""
        storages = (tensor.untyped_storage() for tensor in _tensors(getattr(self._runner, "kv_caches", None) or ()))
        return sum({storage.data_ptr(): int(storage.nbytes()) for storage in storages}.values())


def _fixed_buckets(buckets: Sequence[Sequence[int]]) -> FixedBuckets:
    return FixedBuckets(sorted((b, q, n) for b, q, n in buckets))


def _out_of_memory_outcome(reason: str) -> BucketOutcome:
    """Return the outcome of a bucket that does not fit into the memory."""
    return BucketOutcome(bytes=0, graph=False, out_of_memory=reason)


def _run_compiled(forward: Forward) -> bool:
    """Run the compiled forward. With torch.compile, the compiled forward is the graph."""
    forward()
    return True


def _tensors(layer: Any) -> Iterator[Any]:
    """Yield the tensors of a layer: keys, values and scales, without None. The scales of values are a tuple."""
    if isinstance(layer, (tuple, list)):
        for item in layer:
            yield from _tensors(item)
    elif layer is not None:
        yield layer
