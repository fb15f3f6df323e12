"""A bucket as the step that vLLM's scheduler would hand to a worker: real block tables, attention, logits and sampler.

Only between the allocation of the KV cache and the first request: the step writes to blocks that nobody owns yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase


@dataclass(frozen=True)
class StepShape:
    """`requests` sequences of `query` new tokens each, behind `context` tokens that are in the cache already."""

    requests: int
    query: int
    context: int


def step_shape(phase: BucketPhase, bucket: Bucket, block_size: int, max_model_len: int) -> StepShape:
    """The largest step that this bucket is for.

    A sequence has at most `max_model_len` tokens, the one that is sampled included, whatever a bucket is padded to.
    """
    longest = max_model_len - 1
    if phase is BucketPhase.DECODE:
        blocks = max(1, bucket.num_blocks // bucket.batch_size)
        return StepShape(bucket.batch_size, 1, min(blocks * block_size, longest) - 1)
    query = min(bucket.query_len, longest)
    return StepShape(bucket.batch_size, query, min(bucket.num_blocks * block_size, longest - query))


def block_table(shape: StepShape, row: int, block_size: int, blocks: int) -> list[int]:
    """Ids of the blocks of one sequence. Block 0 is vLLM's own; a cache that is too small is used more than once."""
    needed = -(-(shape.query + shape.context) // block_size)
    return [1 + (row * needed + at) % max(1, blocks - 1) for at in range(needed)]


def make_stage_buffer(runner: Any) -> None:
    """Where a later stage of a pipeline takes what the one before it sends; only vLLM's own warm-up would make it."""
    from vllm.distributed.parallel_state import get_pp_group

    if not get_pp_group().is_first_rank:
        runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
            batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
        )


def run_step(worker: Any, shape: StepShape, sampling: dict[str, Any]) -> None:
    """Execute one step and forget its requests. `sampling` are arguments of vLLM's SamplingParams."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.sched.output import NewRequestData, SchedulerOutput

    names = [f"warm-up-{row}" for row in range(shape.requests)]
    step = SchedulerOutput.make_empty()
    step.scheduled_new_reqs = [
        NewRequestData(
            req_id=name,
            prompt_token_ids=[0] * (shape.query + shape.context),
            mm_features=[],
            sampling_params=SamplingParams(max_tokens=1, **sampling),
            pooling_params=None,
            block_ids=_block_ids(worker, shape, row),
            num_computed_tokens=shape.context,
            lora_request=None,
        )
        for row, name in enumerate(names)
    ]
    step.num_scheduled_tokens = dict.fromkeys(names, shape.query)
    step.total_num_scheduled_tokens = shape.requests * shape.query
    try:
        if worker.execute_model(step) is None:
            worker.sample_tokens(None)
    finally:
        _forget(worker, names)


def _block_ids(worker: Any, shape: StepShape, row: int) -> tuple[list[int], ...]:
    """One list for each group of layers that share a table."""
    cache = worker.cache_config
    table = block_table(shape, row, cache.block_size, cache.num_gpu_blocks)
    return tuple(list(table) for _ in worker.model_runner.kv_cache_config.kv_cache_groups)


def _forget(worker: Any, names: Sequence[str]) -> None:
    from vllm.v1.core.sched.output import SchedulerOutput

    over = SchedulerOutput.make_empty()
    over.finished_req_ids = set(names)
    worker.execute_model(over)
