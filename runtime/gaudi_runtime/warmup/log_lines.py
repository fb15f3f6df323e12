"""The log lines that users of the public servers search for (docs/warmup.md, Log lines). Pure: values in, text out."""

from collections.abc import Sequence

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.units import size
from gaudi_runtime.warmup.memory import GraphPool, Split


def memory_split(split: Split, kv_blocks: int, utilization: float, graph_share: float) -> str:
    """How the memory that the profile run left is divided."""
    return (
        f"Free device memory: {size(split.free)}, "
        f"{size(split.usable)} usable (deviceMemoryUtilization={utilization:g}), "
        f"{size(split.graphs)} reserved for graphs (graphMemoryShare={graph_share:g}), "
        f"{size(split.kv_cache)} reserved for KV cache: {kv_blocks} blocks"
    )


def generated(phase: BucketPhase, buckets: Sequence[Bucket]) -> str:
    """The whole plan of a phase."""
    return f"Generated {len(buckets)} {phase} buckets [bs, query, num_blocks]: {[list(each) for each in buckets]}"


def recipes(cached: int, planned: int) -> str:
    """What the recipe cache spares this warm-up."""
    return f"Recipe cache: {cached} of {planned} buckets have a recipe from an earlier start"


def warming(phase: BucketPhase, bucket: Bucket, position: int, planned: int, free: int) -> str:
    """A bucket is about to be compiled. `free` in bytes."""
    return _step(str(phase).capitalize(), bucket, position, planned, free)


def capturing(phase: BucketPhase, bucket: Bucket, position: int, planned: int, free: int) -> str:
    """A graph is about to be captured. `free` in bytes."""
    return _step(f"Graph/{str(phase).capitalize()}", bucket, position, planned, free)


def graph_shares(pool: GraphPool, free: int, prompt_ratio: float) -> str:
    """What graphs may take."""
    return (
        f"Using {size(pool.total)}/{size(free)} of free device memory for graphs, {size(pool.prompt)} for prompt and "
        f"{size(pool.decode)} for decode (promptRatio={prompt_ratio:g})"
    )


def captured(phase: BucketPhase, buckets: Sequence[Bucket], planned: int, graph_bytes: int) -> str:
    """The graphs of a phase. The denominator is the plan, never the captured; 100.0 only when all are."""
    percent = len(buckets) * 1000 // planned / 10 if planned else 100.0
    return (
        f"Graph/{str(phase).capitalize()} captured:{len(buckets)} ({percent:.1f}%) used_mem:{size(graph_bytes)} "
        f"buckets:{[list(each) for each in sorted(buckets)]}"
    )


def finished(seconds: float, taken: int) -> str:
    """Warm-up is over; `taken` bytes of device memory are its graphs."""
    return f"Warmup finished in {seconds:.0f} secs, allocated {size(taken)} of device memory"


def _step(name: str, bucket: Bucket, position: int, planned: int, free: int) -> str:
    return (
        f"[Warmup][{name}][{position}/{planned}] batch_size:{bucket.batch_size} query_len:{bucket.query_len} "
        f"num_blocks:{bucket.num_blocks} free_mem:{size(free)}"
    )
