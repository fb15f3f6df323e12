"""VllmEngine: the Engine protocol, implemented with vLLM's AsyncLLM. Its workers run one bucket per call.

The start-up methods run in the start-up thread and wait for calls to the workers. During serving, vLLM's own
application runs on our event loop. See docs/internals/vllm.md.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from opentelemetry.trace import get_tracer_provider
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from gaudi_runtime.buckets.bucket import Bucket, bucket_weight
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase, VisionBucket
from gaudi_runtime.engine_protocol.engine import DeviceMemory, EngineLoad, Progress
from gaudi_runtime.engine_protocol.group import OtherPods
from gaudi_runtime.engines.host_cpu import host_cpu_thread_count
from gaudi_runtime.engines.vllm.greedy import refuse_sampling
from gaudi_runtime.engines.vllm.ignored_fields import IGNORED, ignored_default_notes
from gaudi_runtime.engines.vllm.memory import CpuBudget
from gaudi_runtime.engines.vllm.processes import VllmProcesses
from gaudi_runtime.engines.vllm.ranks import (
    BucketOutcome,
    ErrorNote,
    Ranks,
    combine_degradations,
    combine_outcomes,
    largest_value,
)
from gaudi_runtime.engines.vllm.start_errors import explain_start_error
from gaudi_runtime.engines.vllm.vllm_imports import build_engine, import_server, openai_application
from gaudi_runtime.engines.vllm.warm_shapes import WarmShapes
from gaudi_runtime.engines.vllm.watch import PACE, Pace, Watch
from gaudi_runtime.errors import (
    ConfigError,
    DeviceOutOfMemory,
    EngineLost,
    GraphRefused,
    PlanImpossible,
    ShapeRefused,
)
from gaudi_runtime.http.openai_api.media import pixel_limit
from gaudi_runtime.knobs.attention_settings import why_attention_impossible
from gaudi_runtime.memory_split import DeviceMemorySplit
from gaudi_runtime.plan_check import most_graph_tokens
from gaudi_runtime.process.cgroup import usable_cores
from gaudi_runtime.process.children import end_children
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, make_padder

WORKERS_APART = "VLLM_ENABLE_V1_MULTIPROCESSING"
ANSWER_SECONDS = 120.0
"""The deadline in seconds of calls that are short for every worker."""


GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


class VllmEngine(VllmProcesses):
    """The vLLM engine. `loop` is the event loop that serves, and `pace` sets how often vLLM is checked."""

    counters: ServingHistogram

    def __init__(self, config: RuntimeConfig, loop: asyncio.AbstractEventLoop, pace: Pace = PACE) -> None:
        super().__init__(config)
        self.captures_graphs = False
        self._loop, self._pace = loop, pace
        self._step_seconds = float(config.serving.stall_timeout_seconds)
        self._degradations: tuple[str, ...] = ()
        self._sampler_done = False
        self._vision: tuple[VisionBucket, ...] = ()
        self._other_pods: OtherPods | None = None
        self._engine: Any = None
        self._ranks: Ranks
        self._shapes: WarmShapes

    def notes(self) -> tuple[str, ...]:
        """Return the features that do not work because this release of vLLM or its plugin lacks something."""
        return self._degradations

    def set_other_pods(self, other_pods: OtherPods) -> None:
        """Combine this engine with vLLM's processes in the other pods. Call this method before `load`."""
        self._other_pods = other_pods

    def load(self, progress: Progress) -> None:
        """Start vLLM's processes and wait until they have loaded the weights. Raises a RuntimeStartError."""
        if isinstance(self._memory, CpuBudget) and os.environ.get(WORKERS_APART) == "0":
            # vLLM divides the cores between its workers only if the workers run in their own processes. Otherwise set
            # the number of threads here.
            os.environ.setdefault(
                "OMP_NUM_THREADS", str(host_cpu_thread_count(self._memory.weight_bytes(), usable_cores()))
            )
        other_pods = self._other_pods
        leader = other_pods.start(progress) if other_pods else None
        check = other_pods.raise_if_failed if other_pods else lambda: None
        note = ErrorNote(os.getpid())
        note.remove()
        self._parsed_arguments, self._engine = self._launch(build_engine, progress, leader, 0, check)
        try:
            import_server()
            self._ranks = Ranks(self._engine, self._loop, note=note, cores=self._config.parallelism.data)
            self._inspect_workers()
        except BaseException:
            # The caller does not close an engine that failed to load, so end vLLM's processes here.
            self._end_processes()
            raise

    def _inspect_workers(self) -> None:
        descriptions = self._call_ranks("describe")
        self.captures_graphs = all(description["captures_graphs"] for description in descriptions)
        self._check_draft_tokens(descriptions)
        if self._attention and any(description.get("windowed") for description in descriptions):
            slices = self._config.limits.sliding_window_slices
            self._attention = replace(self._attention, windowed=True, window_slices=slices)
        profiles = self._call_ranks("profile")
        self._memory.store_profile(profiles)
        blocks = self._memory.split_and_blocks()[1]
        self._degradations = (
            *combine_degradations(descriptions),
            *_block_size_notes(blocks, self._config),
            *_cache_size_notes(blocks, largest_value(profiles, "kv_blocks")),
            *ignored_default_notes(self._engine.model_config, self.ignored_fields()),
        )

    def split_and_blocks(self) -> tuple[DeviceMemorySplit, DeviceBlocks]:
        """Return the memory split of the rank with the least free memory, in bytes, and the common KV blocks."""
        return self._memory.split_and_blocks()

    def use_plan(self, plan: BucketPlan) -> None:
        """Send the buckets to the workers, which prepare for the warm-up.

        Raises PlanImpossible for a bucket that the attention kernel cannot compute.
        """
        limits = self._memory.split_and_blocks()[1].adjust_limits(self._config.limits)
        if reason := why_attention_impossible(
            plan.prompt, self._config.model_copy(update={"limits": limits}), self._attention
        ):
            raise PlanImpossible(reason)
        self._shapes = WarmShapes(self.captures_graphs)
        self.counters = ServingHistogram(make_padder(plan, limits, self._shapes.is_warm))
        answers = self._call_ranks("plan", *_buckets_as_lists(plan), deadline=self._step_seconds)
        # Read the first answer. All ranks of all cores return the same vision buckets, because they have the same model
        # and the same environment.
        self._vision = tuple(VisionBucket(*bucket) for bucket in answers[0].get("vision", ()))
        self._degradations = tuple(dict.fromkeys((*self._degradations, *combine_degradations(answers))))
        self._memory.update_after_plan(self._call_ranks("memory"))

    def vision_buckets(self) -> tuple[VisionBucket, ...]:
        """Return the vision buckets of the plugin's warm-up; empty on a CPU or for a model without a vision tower."""
        return self._vision

    def warm_vision(self, bucket: VisionBucket) -> int:
        """Run the vision tower on every rank and return the largest number of bytes that a rank allocated.

        Raises DeviceOutOfMemory or ShapeRefused.
        """
        if reason := self._memory.why_full():
            raise DeviceOutOfMemory(reason)
        return self._run_on_ranks("warm_vision", *bucket)["bytes"]

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape by running a forward. Raises DeviceOutOfMemory or ShapeRefused."""
        self._run_bucket("warm", phase, bucket)

    def execute(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Run this shape once without a graph on every rank of a card. On a CPU, `warm` has already run the shape.

        Raises DeviceOutOfMemory.
        """
        if self._config.engine.device != "cpu":
            self._run_bucket("execute", phase, bucket)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture the graph of this shape on every rank and return the size of the largest graph in bytes.

        Raises DeviceOutOfMemory, GraphRefused for a prompt above the limit of graph tokens, or ShapeRefused if vLLM
        runs the shape without a graph for another reason.
        """
        if reason := self._memory.why_full():
            raise DeviceOutOfMemory(reason)
        outcome = self._run_bucket("capture", phase, bucket)
        if not outcome["graph"]:
            if reason := self._why_above_limit(phase, bucket):
                raise GraphRefused(reason)
            raise ShapeRefused("vLLM ran this bucket without a graph, or compiled the bucket again")
        self._shapes.add(bucket)
        return outcome["bytes"]

    def use_warm_buckets(self, plan: BucketPlan) -> None:
        """Restrict the workers' bucket lookup to these buckets. On a CPU, vLLM uses every compiled number of tokens."""
        limits = self._memory.split_and_blocks()[1].adjust_limits(self._config.limits)
        self.counters = ServingHistogram(make_padder(plan, limits, self._shapes.is_warm))
        if self._config.engine.device != "cpu":
            self._call_ranks("use_warm", *_buckets_as_lists(plan))

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run the sampler settings: on a card for all batch sizes in one call, on a CPU for this batch size."""
        # On a card, one call is enough: the plugin's sampler warm-up has no argument for the batch size and runs all
        # sizes.
        if self._config.engine.device == "cpu":
            if batch_size:
                self._call_ranks("sampler", batch_size, deadline=self._step_seconds)
        elif not self._sampler_done:
            self._call_ranks("sampler", deadline=self._step_seconds)
            self._sampler_done = True
        progress()

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps of every size. Return False if vLLM swaps no blocks."""
        done = all(answer["done"] for answer in self._call_ranks("defragmenter", deadline=self._step_seconds))
        progress()
        return done

    def memory(self) -> DeviceMemory:
        """Return the current memory of the rank with the least free memory, in bytes."""
        return self._memory.current_memory(self._call_ranks("memory"))

    def start_serving(self) -> None:
        """Do nothing, because `application` starts serving in the workers, on the event loop."""

    @asynccontextmanager
    async def application(self) -> AsyncIterator[ASGIApp]:
        """Run vLLM's own OpenAI application. From now on, the workers count the shapes of requests."""
        await self._ranks.call_async("start_serving", deadline=ANSWER_SECONDS)
        if self._other_pods:
            self._other_pods.announce_serving()
        if self._config.limits.draft_tokens:
            refuse_sampling(self._engine)
        async with AsyncExitStack() as stack:
            try:
                app = await stack.enter_async_context(openai_application(self._parsed_arguments, self._engine))
            except Exception as error:
                # vLLM reads adapters and chat templates only while it builds the application, so errors in these files
                # occur here.
                raise explain_start_error(error, None) from error
            yield app

    def collectors(self) -> Sequence[Collector]:
        """Return the collector of vLLM's own metrics."""
        return (_VllmMetrics(),)

    def max_pixels(self) -> int:
        """Return the most pixels of the images of one request; 0 if the model takes no images or has no limit."""
        return pixel_limit() if self._engine.model_config.is_multimodal_model else 0

    def ignored_fields(self) -> Mapping[str, object]:
        """Return the fields of requests that vLLM's plugin does not apply; empty on a CPU."""
        return {} if self._config.engine.device == "cpu" else IGNORED

    async def wait_until_lost(self) -> EngineLost:
        """Wait until vLLM can no longer serve, and return the reason."""

        def add_counts(counts: Mapping[str, Any]) -> None:
            self.counters.add_rows(
                counts["met"],
                counts.get("vision"),
                counts.get("compile_times", ()),
                counts.get("step_compiles", ()),
            )

        # If another pod works, for example on a compile, this pod is waiting and is not hung.
        progress = self._other_pods.progress_count if self._other_pods else lambda: 0
        return await Watch(
            self._engine, self._ranks, add_counts, self._step_seconds, progress, self._pace
        ).wait_until_lost()

    def current_load(self) -> EngineLoad:
        """Return running and waiting requests and used KV blocks, from vLLM's metrics after its last step."""
        gauges = dict.fromkeys(GAUGES, 0.0)
        # Collect only three gauges. This method runs for every request, and the whole registry has hundreds of series.
        for family in REGISTRY.restricted_registry(GAUGES).collect():
            for sample in family.samples:
                gauges[sample.name] = gauges.get(sample.name, 0.0) + sample.value
        running, waiting, cache_usage = (gauges[name] for name in GAUGES)
        # Each engine core has its own KV cache and its own gauges.
        cores, blocks = self._config.parallelism.data, self._memory.split_and_blocks()[1].count
        return EngineLoad(int(running), int(waiting), round(min(cores, cache_usage) * blocks), cores * blocks)

    def heartbeat_seconds(self) -> float:
        """Return 0, because `wait_until_lost` detects a hang and ends the process."""
        return 0.0

    async def close(self) -> None:
        """End vLLM's processes. The caller has already drained or cancelled all requests."""
        await asyncio.to_thread(self._end_processes)
        # At exit, vLLM would wait half a minute for a collector that does not answer. The caller limits this wait.
        await asyncio.to_thread(getattr(get_tracer_provider(), "shutdown", lambda: None))

    def _end_processes(self) -> None:
        self._engine.shutdown(timeout=0)
        # If vLLM's core does not answer, it does not end its workers. Therefore end all child processes here.
        end_children()

    def _check_draft_tokens(self, descriptions: Sequence[Mapping[str, Any]]) -> None:
        """Raise ConfigError if vLLM drafts a number of tokens that the plan does not cover."""
        planned_tokens = self._config.limits.draft_tokens or 0
        if any(description.get("draft_tokens", 0) != planned_tokens for description in descriptions):
            raise ConfigError(
                f"The number of draft tokens in vLLM differs from limits.draftTokens: {planned_tokens}. Set "
                "--speculative-config with num_speculative_tokens only in spec.engine.settings."
            )

    def _why_above_limit(self, phase: BucketPhase, bucket: Bucket) -> str | None:
        """Return why the plugin captures no graph of a prompt with so many tokens; None within the limit."""
        limits = self._memory.split_and_blocks()[1].adjust_limits(self._config.limits)
        max_tokens, tokens = most_graph_tokens(self._config, limits), bucket_weight(phase, bucket, limits.block_size)
        if phase is BucketPhase.DECODE or max_tokens is None or tokens <= max_tokens:
            return None
        field = "--max-cudagraph-capture-size" if self._config.warmup.max_graph_tokens else "engine.maxNumBatchedTokens"
        return f"prompts of {tokens} tokens run without a graph, because {field} is {max_tokens}"

    def _run_bucket(self, verb: str, phase: BucketPhase, bucket: Bucket) -> BucketOutcome:
        return self._run_on_ranks(verb, phase.value, list(bucket))

    def _run_on_ranks(self, verb: str, *arguments: Any) -> BucketOutcome:
        outcome = combine_outcomes(self._call_ranks(verb, *arguments, deadline=self._step_seconds))
        if outcome["out_of_memory"]:
            raise DeviceOutOfMemory(outcome["out_of_memory"])
        if "ran_as" in outcome:
            raise ShapeRefused(outcome["ran_as"])
        return outcome

    def _call_ranks(self, verb: str, *arguments: Any, deadline: float = ANSWER_SECONDS) -> list[Any]:
        return self._ranks.call(verb, *arguments, deadline=deadline)


def _buckets_as_lists(plan: BucketPlan) -> list[list[list[int]]]:
    """Return the buckets of prompt and decode as JSON lists, followed by the seeds if there are any."""
    lists = [plan.prompt, plan.decode, *([plan.seeds] if plan.seeds else [])]
    return [[list(bucket) for bucket in buckets] for buckets in lists]


def _block_size_notes(blocks: DeviceBlocks, config: RuntimeConfig) -> Iterator[str]:
    """Yield a sentence if vLLM uses another block size than configured, because bucket settings count in blocks."""
    configured_size = config.limits.block_size
    if blocks.size != configured_size:
        yield (
            f"For this model, vLLM uses KV blocks of {blocks.size} tokens, but engine.blockSize is {configured_size}. "
            f"The buckets are planned for blocks of {blocks.size} tokens"
        )


def _cache_size_notes(blocks: DeviceBlocks, largest: int) -> Iterator[str]:
    """Yield a sentence if the engine cores have KV caches of different sizes. Ranks of one core have equal caches."""
    if largest > blocks.count:
        yield (
            f"the KV caches of the engine cores have {blocks.count} to {largest} blocks. The buckets are planned for "
            f"{blocks.count} blocks, so decode batches may be cold on cores with more blocks"
        )


class _VllmMetrics(Collector):
    """A collector that adds vLLM's own metrics to the registry of our process."""

    def describe(self) -> list[Metric]:
        """Return an empty list, because the registration must not collect metrics."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the current metric families of vLLM."""
        return (family for family in REGISTRY.collect() if family.name.startswith("vllm:"))
