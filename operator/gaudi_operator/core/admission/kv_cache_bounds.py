"""Bounds on the KV blocks that hold for any model, so they need no checkpoint, and the check of a bucket policy.

A spec that fails these checks can never work. If a spec passes, the pod checks it after its profile run
(docs/internals/warmup.md, Memory split).
"""

from math import ceil

from gaudi_operator.api.v1alpha1.bucketing import Gaps
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import WarmupPolicy
from gaudi_operator.core.bucket_policy_check import PolicyCheck
from gaudi_operator.core.inference import Inference, cache_on_inference
from gaudi_operator.core.quantities import MOST_MEMORY, parse_bytes
from gaudi_operator.core.rendering.runtime_config import bucket_policy, plan_limits
from gaudi_runtime.buckets.kv_blocks import most_useful_blocks
from gaudi_runtime.contract.config import plan_hash

LEAST_BYTES_PER_TOKEN = 2
"""The minimum bytes per token of a KV block, for key and value in one layer, with one head, dimension and byte."""


@cache_on_inference
def policy_check(inference: Inference) -> PolicyCheck:
    """Return the check of a resource's bucket policy."""
    spec = inference.spec
    policy, limits, kv_blocks = bucket_policy(spec), plan_limits(spec), max_kv_blocks(spec)
    refuses_gaps = spec.warmup.policy is WarmupPolicy.COMPLETE and spec.bucketing.gaps is Gaps.REFUSE
    key = f"{plan_hash(policy, limits)} {kv_blocks} {refuses_gaps}"
    return PolicyCheck(policy, limits, kv_blocks, refuses_gaps, key)


def max_kv_blocks(spec: GaudiInferenceSpec) -> int:
    """Return the maximum number of KV blocks that any model can use with this spec."""
    useful_blocks, memory = most_useful_blocks(plan_limits(spec)), spec.accelerator.device_memory
    if memory is None:
        return useful_blocks
    cache_bytes = int(parse_bytes(memory) * _cache_share(spec))
    return min(useful_blocks, cache_bytes // (LEAST_BYTES_PER_TOKEN * spec.engine.block_size))


def min_device_memory(spec: GaudiInferenceSpec) -> int:
    """Return the minimum memory budget in bytes that has room for one KV block of any model, at most MOST_MEMORY."""
    return ceil(min(MOST_MEMORY, LEAST_BYTES_PER_TOKEN * spec.engine.block_size / _cache_share(spec)))


def _cache_share(spec: GaudiInferenceSpec) -> float:
    """Return the share of device memory that the KV cache gets."""
    utilization = spec.engine.device_memory_utilization_percent / 100
    return utilization * (1 - spec.warmup.graph_memory_percent / 100)
