"""Decode buckets of speculative decoding, in which steps verify drafts (docs/internals/planning.md, Drafts).

A step that verifies d drafts has 1 + d tokens of every sequence. The plugin pads the sequences by the decode buckets of
a plan without drafts. These buckets are the seeds. Then every token gets a row of its own: 3 sequences with 2 drafts,
padded to 4 sequences, run as a decode batch of 12.
"""

from dataclasses import replace

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import clamp_blocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, OptimalSettings, Strategy
from gaudi_runtime.errors import PlanImpossible


def add_verification_buckets(plan: BucketPlan, limits: Limits, policy: BucketPolicy, max_buckets: int) -> BucketPlan:
    """Return the plan with additional decode buckets for all steps that verify drafts.

    Without speculative decoding, the plan is unchanged. Raises PlanImpossible as check_speculative_drafts() does, and
    for more than `max_buckets` decode buckets.
    """
    if limits.draft_tokens is None:
        return plan
    check_speculative_drafts(policy, limits)
    decode_buckets = {
        *plan.decode,
        *(bucket for seed in plan.decode for bucket in verification_buckets(seed, limits.draft_tokens, limits)),
    }
    if len(decode_buckets) > max_buckets:
        raise PlanImpossible(
            f"with {limits.draft_tokens} draft tokens, the plan has more than {max_buckets} decode buckets. Choose "
            "larger steps in bucketing.decode"
        )
    return replace(plan, decode=tuple(sorted(decode_buckets)), seeds=plan.decode)


def check_speculative_drafts(policy: BucketPolicy, limits: Limits) -> None:
    """Raise PlanImpossible for strategy `Optimal` with traffic or a budget together with speculative decoding.

    Such a plan is not possible, because a histogram has the rows of drafts but not their sequences, and each bucket of
    the plan adds further buckets.
    """
    if (
        limits.draft_tokens is not None
        and policy.strategy is Strategy.OPTIMAL
        and policy.optimal not in (None, OptimalSettings())
    ):
        raise PlanImpossible(
            "with speculative decoding, strategy Optimal supports neither traffic nor a budget. Remove this field",
            "bucketing.optimal",
        )


def verification_buckets(seed: Bucket, drafts: int, limits: Limits) -> list[Bucket]:
    """Return the buckets in which a batch of `seed` verifies `drafts` drafts per sequence, as in the plugin."""
    rows = seed.batch_size * (1 + drafts)
    # Attention reads the blocks of a sequence once for each token. If a batch has few blocks, a smaller bucket needs
    # less padding.
    block_counts = [*([seed.num_blocks] if rows <= seed.num_blocks else []), seed.num_blocks * (1 + drafts)]
    return [Bucket(rows, 1, clamp_blocks(limits, rows, num_blocks)) for num_blocks in block_counts]
