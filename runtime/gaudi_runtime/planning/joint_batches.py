"""Buckets of engine cores that run a mixture of experts together (docs/internals/planning.md, Joint batches).

Each core looks up a bucket for its own batch. Then the plugin pads every dimension to the largest of all cores. So
(1, 4096) on one core and (2, 384) on another one both run as (2, 4096).
"""

from collections.abc import Iterable
from dataclasses import replace

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.errors import PlanImpossible


def add_joint_buckets(plan: BucketPlan, limits: Limits, max_buckets: int) -> BucketPlan:
    """Return the plan with a bucket for every batch that cores can run together.

    Without joint batches, the plan is unchanged. Raises PlanImpossible for more than `max_buckets` buckets of a phase.
    """
    if not limits.joint_batches:
        return plan
    prompt, decode = (close_under_maximum(buckets, max_buckets) for buckets in (plan.prompt, plan.decode))
    if max(len(prompt), len(decode)) > max_buckets:
        raise PlanImpossible(
            f"with joint batches of several engine cores, the plan has more than {max_buckets} buckets of a phase. "
            "Choose larger steps in bucketing"
        )
    return replace(plan, prompt=prompt, decode=decode)


def close_under_maximum(buckets: Iterable[Bucket], max_buckets: int) -> tuple[Bucket, ...]:
    """Return the buckets and the maxima of all of them in each dimension, sorted. End early above `max_buckets`."""
    found = {*buckets}
    new = found
    while new and len(found) <= max_buckets:
        new = {Bucket(*map(max, left, right)) for left in new for right in found} - found
        found |= new
    return tuple(sorted(found))
