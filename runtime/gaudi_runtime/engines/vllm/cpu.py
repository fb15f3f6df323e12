"""The verbs of a worker on a CPU: real steps through vLLM's own model runner, with or without compiled graphs.

Plain data in and out, one bucket a call, as on a card (hpu.py).
"""

from collections.abc import Sequence
from typing import Any

import psutil

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.capabilities import refuse_models
from gaudi_runtime.engines.vllm.dummy_batches import Outcome
from gaudi_runtime.engines.vllm.dummy_steps import StepShape, make_stage_buffer, run_step, step_shape
from gaudi_runtime.engines.vllm.fixed_shapes import FixedShapes
from gaudi_runtime.engines.vllm.observed_shapes import MetShapes, scheduled, shape_of
from gaudi_runtime.warmup.schedule import SAMPLER_RUNS

GREEDY = {"temperature": 0.0}


class CpuVerbs:
    """Drives one worker, from its one thread, between the allocation of the KV cache and the first request."""

    def __init__(self, worker: Any, mode: ExecutionMode) -> None:
        """`mode` is torchCompile or eager."""
        self._worker, self._mode = worker, mode
        self._shapes: FixedShapes | None = None
        self._met: MetShapes | None = None

    def describe(self) -> dict[str, object]:
        """Execution mode, whether it has graphs, and what a user should know. Raises UnsupportedModel."""
        refuse_models(self._worker.model_runner)
        return {
            "execution_mode": self._mode.value,
            "captures_graphs": self._mode is ExecutionMode.TORCH_COMPILE,
            "degradations": [],
        }

    def memory(self) -> dict[str, int]:
        """Bytes of this worker that are resident now."""
        return {"resident": psutil.Process().memory_info().rss}

    def profile(self) -> dict[str, int]:
        """What the start left: bytes of weights and of the KV cache, KV blocks, tokens of a block."""
        runner, cache = self._worker.model_runner, self._worker.cache_config
        return {
            **self.memory(),
            "weights": sum(each.numel() * each.element_size() for each in runner.model.parameters()),
            "kv_cache": sum(each.numel() * each.element_size() for each in runner.kv_caches),
            "kv_blocks": int(cache.num_gpu_blocks),
            "block_size": int(cache.block_size),
        }

    def plan(self, prompt: Sequence[Sequence[int]], decode: Sequence[Sequence[int]]) -> dict[str, object]:
        """Make the KV cache resident, so that no request pays for its pages, and get ready to compile."""
        for layer in self._worker.model_runner.kv_caches:
            layer.zero_()
        make_stage_buffer(self._worker.model_runner)
        if self._mode is ExecutionMode.TORCH_COMPILE:
            self._shapes = FixedShapes(self._worker.model_runner)
        return {"prompt": len(prompt), "decode": len(decode), "degradations": []}

    def warm(self, phase: str, bucket: Sequence[int]) -> Outcome:
        """Run one bucket, compiled for exactly its number of tokens."""
        return self._run(BucketPhase(phase), Bucket(*bucket))

    def capture(self, phase: str, bucket: Sequence[int]) -> Outcome:
        """Run the compiled bucket once more: its graph is kept, and what it holds on to is measured."""
        if self._shapes is None:
            raise ValueError(f"execution mode {self._mode} has no graphs to capture")
        before = self._shapes.compiles()
        outcome = self._run(BucketPhase(phase), Bucket(*bucket))
        return Outcome(bytes=outcome["bytes"], graph=self._shapes.compiles() == before, out_of_memory=None)

    def sampler(self, batch_size: int) -> dict[str, bool]:
        """Decode one batch with every setting of the sampler."""
        for run in SAMPLER_RUNS:
            settings = {"temperature": run.temperature, "top_p": run.top_p, "top_k": run.top_k}
            run_step(self._worker, StepShape(batch_size, 1, 0), settings)
        return {"done": True}

    def defragmenter(self) -> dict[str, bool]:
        """vLLM's cache on a CPU is never moved."""
        return {"done": False}

    def start_serving(self) -> None:
        """Warm-up is over: steps from here on are counted."""
        self._met = MetShapes()

    def counters(self) -> dict[str, list[list[Any]]]:
        """Shapes met and compiled since the last look (MetShapes.take)."""
        return self._met.take() if self._met else {"met": [], "compiled": []}

    def step(self, step: Any, execute: Any) -> Any:
        """Count a step of serving around its execution."""
        if self._met is None or not step.total_num_scheduled_tokens:
            return execute(step)
        shape = shape_of(scheduled(step), self._worker.cache_config.block_size)
        before = self._shapes.compiles() if self._shapes else 0
        answer = execute(step)
        self._met.met(shape)
        self._met.compiled(shape, self._compiled(step, before))
        return answer

    def _run(self, phase: BucketPhase, bucket: Bucket) -> Outcome:
        before = self.memory()["resident"]
        cache, model = self._worker.cache_config, self._worker.model_config
        shape = step_shape(phase, bucket, cache.block_size, model.max_model_len)
        if self._shapes is None:
            run_step(self._worker, shape, GREEDY)
        else:
            tokens = bucket.batch_size * bucket.query_len
            with self._shapes.counts.exactly(tokens):
                run_step(self._worker, shape, GREEDY)
            self._shapes.counts.add(tokens)
        return Outcome(bytes=max(0, self.memory()["resident"] - before), graph=False, out_of_memory=None)

    def _compiled(self, step: Any, before: int) -> int:
        """Graphs that a step of serving made; from now on they are there for others, too."""
        if self._shapes is None:
            return 0
        made = self._shapes.compiles() - before
        if made:
            self._shapes.counts.add(step.total_num_scheduled_tokens)
        return made
