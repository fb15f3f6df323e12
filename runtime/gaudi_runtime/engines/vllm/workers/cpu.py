"""The calls of a worker on a CPU: real steps of vLLM's own model runner, with or without compiled graphs.

Arguments and answers are plain data, one bucket per call, as on a card (hpu.py). A bucket runs as a step like those of
vLLM's scheduler, with real block tables, attention, logits and sampler. Only the model's forward is compiled. For the
forward, a step is a number of tokens, because attention is one opaque operation whose own shapes are not compiled.
Therefore a bucket needs a graph of batch size x query tokens, a step uses the smallest graph that is large enough, and
a step with decodes and prompts counts as one prompt with all its tokens (docs/internals/vllm.md, On a CPU).
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.compiles import StepPart
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.vllm.ranks import BucketOutcome
from gaudi_runtime.engines.vllm.workers.capabilities import refuse_pooling
from gaudi_runtime.engines.vllm.workers.compile_times import StepCompiles, watch_dynamo
from gaudi_runtime.engines.vllm.workers.generators import RewindableGenerators
from gaudi_runtime.engines.vllm.workers.observed_shapes import ObservedShapes, Row, observed_shape
from gaudi_runtime.errors import UnsupportedModel
from gaudi_runtime.warmup.schedule import SAMPLER_RUNS

GREEDY = {"temperature": 0.0}
MOST_GRAPHS = 8192
"""A limit that no plan reaches."""


class CpuVerbs:
    """The calls of a worker on a CPU, from one thread, between the allocation of the KV cache and serving."""

    def __init__(self, worker: Any, mode: ExecutionMode) -> None:
        """Create the calls. `mode` is torchCompile or eager."""
        self._worker, self._mode = worker, mode
        self._compiled_model: CompiledModel | None = None
        self._observed_shapes: ObservedShapes | None = None
        self._recompilations = StepCompiles()

    def describe(self) -> dict[str, object]:
        """Return the execution mode, whether it has graphs, and the degradations. Raises UnsupportedModel."""
        refuse_pooling(self._worker.model_runner)
        if self._worker.model_runner.speculative_config is not None:
            raise UnsupportedModel("Speculative decoding is not supported on a CPU. Remove --speculative-config.")
        return {
            "execution_mode": self._mode.value,
            "captures_graphs": self._mode is ExecutionMode.TORCH_COMPILE,
            "degradations": [],
        }

    def memory(self) -> dict[str, int]:
        """Return an empty mapping, because the runtime's process counts the memory budget of a CPU (memory.py)."""
        return {}

    def profile(self) -> dict[str, int]:
        """Return the bytes of weights and KV cache, the number of KV blocks, and the tokens per block."""
        runner, cache = self._worker.model_runner, self._worker.cache_config
        return {
            "weights": sum(tensor.numel() * tensor.element_size() for tensor in runner.model.parameters()),
            "kv_cache": sum(tensor.numel() * tensor.element_size() for tensor in runner.kv_caches),
            "kv_blocks": int(cache.num_gpu_blocks),
            "block_size": int(cache.block_size),
        }

    def plan(self, prompt: Sequence[Sequence[int]], decode: Sequence[Sequence[int]]) -> dict[str, object]:
        """Write to the whole KV cache, so that its memory is allocated, and prepare to compile."""
        # Linux allocates a memory page at the first write. Write to the whole KV cache now, so that no request waits
        # for this allocation.
        for layer in self._worker.model_runner.kv_caches:
            layer.zero_()
        make_stage_buffer(self._worker.model_runner)
        if self._mode is ExecutionMode.TORCH_COMPILE:
            self._compiled_model = CompiledModel(self._worker.model_runner)
        return {"prompt": len(prompt), "decode": len(decode), "degradations": []}

    def warm(self, phase: str, bucket: Sequence[int]) -> BucketOutcome:
        """Compile one bucket by running it with exactly its number of tokens."""
        self._run_bucket(BucketPhase(phase), Bucket(*bucket))
        return BucketOutcome(bytes=0, graph=False, out_of_memory=None)

    def capture(self, phase: str, bucket: Sequence[int]) -> BucketOutcome:
        """Run the compiled bucket a second time. The bucket has a graph if this run compiles nothing."""
        if self._compiled_model is None:
            raise ValueError(f"execution mode {self._mode} has no graphs to capture")
        compiles_before = self._compiled_model.read_compiles()
        self._run_bucket(BucketPhase(phase), Bucket(*bucket))
        # The graph takes no device memory: it is compiled code, and the tensors of a step are freed after the step.
        return BucketOutcome(bytes=0, graph=self._compiled_model.read_compiles() == compiles_before, out_of_memory=None)

    def sampler(self, batch_size: int) -> dict[str, bool]:
        """Decode one batch with each sampler setting."""
        for run in SAMPLER_RUNS:
            settings = {"temperature": run.temperature, "top_p": run.top_p, "top_k": run.top_k}
            run_step(self._worker, StepShape(batch_size, 1, 0), settings)
        return {"done": True}

    def defragmenter(self) -> dict[str, bool]:
        """Do nothing, because vLLM does not move KV blocks on a CPU."""
        return {"done": False}

    def start_serving(self) -> None:
        """End the warm-up and start counting steps."""
        self._worker.model_runner.input_batch.generators = RewindableGenerators()
        self._observed_shapes = ObservedShapes()

    def counters(self) -> dict[str, list[Row]]:
        """Return the counts since the last call."""
        return {
            "met": self._observed_shapes.pop_rows() if self._observed_shapes else [],
            "step_compiles": self._recompilations.pop_rows(),
        }

    def step(self, step: Any, execute: Any) -> Any:
        """Execute a step and, during serving, count it."""
        if self._observed_shapes is None or not step.total_num_scheduled_tokens:
            return execute(step)
        shape = observed_shape(step, self._worker.cache_config.block_size)
        if self._compiled_model is None:
            answer = execute(step)
            self._observed_shapes.count_batch(shape)
            return answer
        compiles_before = self._compiled_model.read_compiles()
        answer = execute(step)
        compiles = self._compiled_model.read_compiles() - compiles_before
        if compiles.graphs:
            # Record the size, because later steps of this size use the new graph.
            self._compiled_model.counts.add(step.total_num_scheduled_tokens)
        self._recompilations.add(StepPart.FORWARD, "", compiles)
        self._observed_shapes.count_batch(shape, compiles=compiles.graphs)
        return answer

    def _run_bucket(self, phase: BucketPhase, bucket: Bucket) -> None:
        cache, model = self._worker.cache_config, self._worker.model_config
        shape = step_shape(phase, bucket, cache.block_size, model.max_model_len)
        if self._compiled_model is None:
            run_step(self._worker, shape, GREEDY)
        else:
            tokens = bucket.batch_size * bucket.query_len
            with self._compiled_model.counts.force_padding(tokens):
                run_step(self._worker, shape, GREEDY)
            self._compiled_model.counts.add(tokens)


@dataclass(frozen=True)
class StepShape:
    """A step of a worker on a CPU: `requests` sequences, each with `query` new tokens after `context` cached tokens."""

    requests: int
    query: int
    context: int


def step_shape(phase: BucketPhase, bucket: Bucket, block_size: int, max_model_len: int) -> StepShape:
    """Return the largest step of a worker on a CPU that is padded to this bucket."""
    # A sequence has at most `max_model_len` tokens, including the sampled token, even if the bucket is padded to more
    # tokens.
    longest = max_model_len - 1
    if phase is BucketPhase.DECODE:
        blocks = max(1, bucket.num_blocks // bucket.batch_size)
        return StepShape(bucket.batch_size, 1, min(blocks * block_size, longest) - 1)
    query_tokens = min(bucket.query_len, longest)
    return StepShape(bucket.batch_size, query_tokens, min(bucket.num_blocks * block_size, longest - query_tokens))


def block_table(shape: StepShape, row: int, block_size: int, total_blocks: int) -> list[int]:
    """Return the ids of the KV blocks of one sequence in a step of a worker on a CPU."""
    # Block 0 is reserved by vLLM. If the cache is too small, the same blocks are used several times. This is safe,
    # because requests are only accepted after warm-up.
    needed_blocks = -(-(shape.query + shape.context) // block_size)
    return [1 + (row * needed_blocks + index) % max(1, total_blocks - 1) for index in range(needed_blocks)]


def make_stage_buffer(runner: Any) -> None:
    """Create the buffer for the output of the previous pipeline stage, if this rank is not the first stage."""
    # Only vLLM's own warm-up would create this buffer, and vLLM's warm-up is disabled.
    from vllm.distributed.parallel_state import get_pp_group

    if not get_pp_group().is_first_rank:
        runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
            batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
        )


def run_step(worker: Any, shape: StepShape, sampling: dict[str, Any]) -> None:
    """Execute a step of a worker on a CPU and remove its requests. `sampling` contains arguments of SamplingParams."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.sched.output import NewRequestData, SchedulerOutput

    cache, groups = worker.cache_config, worker.model_runner.kv_cache_config.kv_cache_groups
    tables = [block_table(shape, row, cache.block_size, cache.num_gpu_blocks) for row in range(shape.requests)]
    request_ids = [f"warm-up-{row}" for row in range(shape.requests)]
    step = SchedulerOutput.make_empty()
    step.scheduled_new_reqs = [
        NewRequestData(
            req_id=request_id,
            prompt_token_ids=[0] * (shape.query + shape.context),
            mm_features=[],
            sampling_params=SamplingParams(max_tokens=1, **sampling),
            pooling_params=None,
            # Give each KV cache group its own copy of the table, because the runner writes to the list later.
            block_ids=tuple(list(table) for _ in groups),
            num_computed_tokens=shape.context,
            lora_request=None,
        )
        for request_id, table in zip(request_ids, tables, strict=True)
    ]
    step.num_scheduled_tokens = dict.fromkeys(request_ids, shape.query)
    step.total_num_scheduled_tokens = shape.requests * shape.query
    try:
        # None means that the worker keeps the logits until `sample_tokens` is called. The scheduler uses this to apply
        # a grammar before sampling.
        if worker.execute_model(step) is None:
            worker.sample_tokens(None)
    finally:
        final_step = SchedulerOutput.make_empty()
        final_step.finished_req_ids = set(request_ids)
        worker.execute_model(final_step)


class TokenCounts:
    """The token counts for which a worker on a CPU has a graph."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._forced_count: int | None = None

    def padded_count(self, tokens: int) -> int:
        """Return the smallest token count with a graph that is large enough; `tokens` if there is none."""
        if self._forced_count is not None:
            return max(tokens, self._forced_count)
        index = bisect_left(self._counts, tokens)
        return self._counts[index] if index < len(self._counts) else tokens

    def add(self, tokens: int) -> None:
        """Record that a graph with this token count exists."""
        index = bisect_left(self._counts, tokens)
        if index == len(self._counts) or self._counts[index] != tokens:
            insort(self._counts, tokens)

    @contextmanager
    def force_padding(self, tokens: int) -> Iterator[None]:
        """Pad all steps in the block to this token count."""
        self._forced_count = tokens
        try:
            yield
        finally:
            self._forced_count = None


class CompiledModel:
    """The compiled model of a worker on a CPU, with one graph per token count. Create it after the model is loaded."""

    def __init__(self, runner: Any) -> None:
        import torch._dynamo as dynamo

        self.counts, self.read_compiles = TokenCounts(), watch_dynamo()
        self._determine_padding = runner._determine_batch_execution_and_padding
        # With Dynamo's default limit, the model would fail at the eighth shape.
        dynamo.config.recompile_limit = MOST_GRAPHS
        dynamo.config.accumulated_recompile_limit = MOST_GRAPHS
        runner._determine_batch_execution_and_padding = self._pad_batch
        runner.model.compile(fullgraph=True, dynamic=False, backend="inductor")

    def _pad_batch(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        mode, batch, *rest = self._determine_padding(*args, **kwargs)
        return mode, replace(batch, num_tokens=self.counts.padded_count(batch.num_tokens)), *rest
