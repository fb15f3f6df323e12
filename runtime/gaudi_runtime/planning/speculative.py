"""Decode buckets of speculative decoding: the steps that verify drafts (docs/internals/bucketing.md, Drafts).

A step that verifies d drafts has 1 + d tokens of every sequence. The plugin pads its sequences by the decode buckets of
a plan without drafts, the seeds, and then lays every token in a row of its own: 3 sequences with 2 drafts, padded to
4, run as a decode batch of 12.
"""

from dataclasses import replace

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import clamp_blocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.errors import PlanImpossible


def with_verify_steps(plan: BucketPlan, limits: Limits, policy: BucketPolicy, most: int) -> BucketPlan:
    """Return the plan with the decode buckets of all steps that verify drafts.

    Without speculative decoding the plan is unchanged. Raises PlanImpossible for more than `most` decode buckets, and
    for strategy Optimal with traffic or a budget. A histogram has the rows of drafts but not their sequences, and each
    bucket of the plan adds further buckets.
    """
    if limits.draft_tokens is None:
        return plan
    if policy.strategy is Strategy.OPTIMAL and policy.optimal not in (None, OptimalSettings()):
        raise PlanImpossible(
            "with speculative decoding strategy Optimal takes neither traffic nor a budget; leave it out",
            "bucketing.optimal",
        )
    decode = {
        *plan.decode,
        *(each for seed in plan.decode for each in verify_buckets(seed, limits.draft_tokens, limits)),
    }
    if len(decode) > most:
        raise PlanImpossible(
            f"with {limits.draft_tokens} drafts there are more than {most} decode buckets; choose larger steps in "
            "bucketing.decode"
        )
    return replace(plan, decode=tuple(sorted(decode)), seeds=plan.decode)


def verify_buckets(seed: Bucket, drafts: int, limits: Limits) -> list[Bucket]:
    """Return the buckets in which a batch of `seed` verifies `drafts` drafts per sequence, as the plugin plans them."""
    rows = seed.batch_size * (1 + drafts)
    # Attention reads the blocks of a sequence once per token; for few blocks a smaller bucket pads less.
    blocks = [*([seed.num_blocks] if rows <= seed.num_blocks else []), seed.num_blocks * (1 + drafts)]
    return [Bucket(rows, 1, clamp_blocks(limits, rows, each)) for each in blocks]
