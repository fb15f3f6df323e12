"""VllmEngine: the Engine protocol over vLLM's AsyncLLM, whose workers are driven bucket by bucket (docs/vllm.md).

Start-up verbs run in the worker thread of start-up and wait for calls to the workers; serving is vLLM's own
application on our event loop.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.protocol import DeviceMemory, EngineLoad, Others, Progress, RecipeKey
from gaudi_runtime.engines.threads import threads
from gaudi_runtime.engines.vllm.arguments import engine_arguments, meeting_arguments, tell_own_address
from gaudi_runtime.engines.vllm.gauges import VllmCollector, engine_load
from gaudi_runtime.engines.vllm.launch import launch
from gaudi_runtime.engines.vllm.memory import CpuLedger, RankMemory, memory_of
from gaudi_runtime.engines.vllm.ranks import Ranks, fold_outcomes, fold_sentences
from gaudi_runtime.engines.vllm.release import build_engine, import_server, openai_application
from gaudi_runtime.engines.vllm.start_errors import why_not_started
from gaudi_runtime.engines.vllm.versions import check_release, installed, vllm_recipe_key
from gaudi_runtime.engines.vllm.watch import Watch
from gaudi_runtime.errors import DeviceOutOfMemory, EngineLost, GraphRefused
from gaudi_runtime.process.cgroup import usable_cores
from gaudi_runtime.process.children import end_children
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, pad_by
from gaudi_runtime.warmup.memory import Split

WORKERS_APART = "VLLM_ENABLE_V1_MULTIPROCESSING"
ANSWER_SECONDS = 120.0
"""For what no worker needs long for."""


class VllmEngine:
    """Verbs are called in the order of the protocol. `loop` is the event loop that will serve."""

    counters: ServingHistogram

    def __init__(self, config: RuntimeConfig, loop: asyncio.AbstractEventLoop) -> None:
        """Raises PlanImpossible for a model that does not fit, and what else the configuration tells already."""
        check_release(installed(cards=config.engine.device == "hpu"))
        self.captures_graphs = False
        self._config, self._loop = config, loop
        self._step_seconds = float(config.serving.stall_timeout_seconds)
        self._memory: RankMemory = memory_of(config)
        self._arguments = engine_arguments(config, self._memory.before_start())
        self._degradations: tuple[str, ...] = ()
        self._sampler_done = False
        self._others: Others | None = None
        self._engine: Any = None
        self._ranks: Ranks
        self._shapes: WarmShapes

    def report_fields(self) -> Mapping[str, object]:
        """A real model; the arguments that vLLM is started with."""
        return {"engine_arguments": self._arguments}

    def notes(self) -> tuple[str, ...]:
        """What a user loses because this release of vLLM or of its plugin lacks something."""
        return self._degradations

    def span(self, others: Others) -> None:
        """Be one engine with vLLM's processes in these pods."""
        self._others = others

    def load(self, progress: Progress) -> None:
        """Start vLLM's processes: weights and KV cache are there afterwards. Raises a RuntimeStartError."""
        if isinstance(self._memory, CpuLedger) and os.environ.get(WORKERS_APART) == "0":
            # vLLM divides the cores itself only among workers that have processes of their own.
            os.environ.setdefault("OMP_NUM_THREADS", str(threads(self._memory.weight_bytes(), usable_cores())))
        self._parsed, self._engine = self._launched(progress)
        import_server()
        self._ranks = Ranks(self._engine, self._loop)
        described = self._ask("describe")
        self.captures_graphs = all(each["captures_graphs"] for each in described)
        self._degradations = fold_sentences(described)
        self._memory.started(self._ask("profile"))

    def _launched(self, progress: Progress) -> tuple[Any, Any]:
        mode = self._config.engine.execution_mode.value
        if self._others is None:
            return launch(self._arguments, mode, build_engine, progress)
        meeting = self._others.start(progress)
        tell_own_address(meeting)
        joined = meeting_arguments(meeting, self._config.parallelism.nodes, rank=0)
        return launch((*self._arguments, *joined), mode, build_engine, progress, self._others.raise_if_failed)

    def divided_memory(self) -> tuple[Split, int]:
        """How the memory of the fullest rank is divided, in bytes, and the KV blocks that all ranks have."""
        return self._memory.divided()

    def recipe_key(self) -> RecipeKey | None:
        """What compiled code on disk depends on, None where none is kept."""
        return vllm_recipe_key(self._config)

    def use_plan(self, plan: BucketPlan) -> None:
        """Hand the buckets to the workers, which prepare themselves."""
        self._shapes = WarmShapes(self._config.engine.device, self.captures_graphs)
        self.counters = ServingHistogram(pad_by(plan, self._config.limits, self._shapes.is_warm))
        buckets = ([list(each) for each in plan.of(phase)] for phase in (BucketPhase.PROMPT, BucketPhase.DECODE))
        answers = self._ask("plan", *buckets, deadline=self._step_seconds)
        self._degradations = tuple(dict.fromkeys((*self._degradations, *fold_sentences(answers))))
        self._memory.planned(self._ask("memory"))

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape with a real forward. Raises DeviceOutOfMemory."""
        self._run("warm", phase, bucket)
        if not self.captures_graphs:
            self._shapes.add(phase, bucket)

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture the graph of this shape on every rank and return the largest's bytes.

        Raises DeviceOutOfMemory, or GraphRefused where vLLM runs the shape without a graph.
        """
        outcome = self._run("capture", phase, bucket)
        if not outcome["graph"]:
            raise GraphRefused("vLLM runs this shape without a graph")
        self._shapes.add(phase, bucket)
        return int(outcome["bytes"])

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run the sampler's settings: on a card for all sizes at once, on a CPU for one batch size."""
        if self._config.engine.device == "cpu":
            if batch_size:
                self._ask("sampler", batch_size, deadline=self._step_seconds)
        elif not self._sampler_done:
            self._ask("sampler", deadline=self._step_seconds)
            self._sampler_done = True
        progress()

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block swaps of every size; False where vLLM swaps none."""
        done = all(each["done"] for each in self._ask("defragmenter", deadline=self._step_seconds))
        progress()
        return done

    def memory(self) -> DeviceMemory:
        """Memory of the fullest rank now, in bytes."""
        return self._memory.now(self._ask("memory"))

    def start_serving(self) -> None:
        """Nothing yet: `application` tells the workers, on the event loop."""

    @asynccontextmanager
    async def application(self) -> AsyncIterator[ASGIApp]:
        """vLLM's own OpenAI application; from here on workers count what they meet."""
        await self._ranks.ask("start_serving", deadline=ANSWER_SECONDS)
        if self._others:
            self._others.serve()
        async with AsyncExitStack() as stack:
            try:
                app = await stack.enter_async_context(openai_application(self._parsed, self._engine))
            except Exception as error:  # adapters and chat templates are read here
                raise why_not_started(error, None) from error
            yield app

    def collectors(self) -> Sequence[Collector]:
        """vLLM's own metrics."""
        return (VllmCollector(),)

    async def until_lost(self) -> EngineLost:
        """Returns when vLLM can serve no more."""

        def absorb(counts: Mapping[str, Any]) -> None:
            self.counters.absorb(counts["met"], counts["compiled"])

        moves = self._others.moves if self._others else lambda: 0
        return await Watch(self._engine, self._ranks, absorb, self._step_seconds, moves).until_lost()

    def load_now(self) -> EngineLoad:
        """Requests in the batch and waiting, and KV blocks, by vLLM's own metrics."""
        return engine_load(self._memory.divided()[1])

    def heartbeat_seconds(self) -> float:
        """0: `until_lost` sees a hang, and ends the process."""
        return 0.0

    async def close(self) -> None:
        """End vLLM's processes; what ran has been drained or cancelled before."""
        await asyncio.to_thread(self._engine.shutdown, timeout=0)
        await asyncio.to_thread(end_children)

    def _run(self, verb: str, phase: BucketPhase, bucket: Bucket) -> dict[str, Any]:
        outcome = fold_outcomes(self._ask(verb, phase.value, list(bucket), deadline=self._step_seconds))
        if outcome["out_of_memory"]:
            raise DeviceOutOfMemory(outcome["out_of_memory"])
        return outcome

    def _ask(self, verb: str, *arguments: Any, deadline: float = ANSWER_SECONDS) -> list[Any]:
        return self._ranks.call(verb, *arguments, deadline=deadline)


class WarmShapes:
    """On a CPU a graph serves every step of at most its number of tokens, and without graphs no shape is ever cold."""

    def __init__(self, device: str, captures_graphs: bool) -> None:
        self._on_cpu, self._graphs = device == "cpu", captures_graphs
        self._warm: set[tuple[BucketPhase, Bucket]] = set()
        self._most_tokens = 0

    def add(self, phase: BucketPhase, bucket: Bucket) -> None:
        """This bucket is warm now."""
        self._warm.add((phase, bucket))
        self._most_tokens = max(self._most_tokens, bucket.batch_size * bucket.query_len)

    def is_warm(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Whether a batch that is padded to `bucket` waits for no compile."""
        if self._on_cpu:
            return not self._graphs or bucket.batch_size * bucket.query_len <= self._most_tokens
        return (phase, bucket) in self._warm
