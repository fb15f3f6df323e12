"""The settings of the servers that wrote the reference logs (docs/internals: planning.md, warmup.md)."""

from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    PromptRanges,
    Strategy,
)

TWO_DIMENSIONAL = BucketPolicy(
    strategy=Strategy.LINEAR,
    prompt=PromptRanges(
        batch_size=BucketingRangeSettings(min=1, step=32, max=4),
        query=BucketingRangeSettings(min=128, step=128, max=1024),
    ),
    decode=DecodeRanges(
        batch_size=BucketingRangeSettings(min=1, step=128, max=4),
        blocks=BucketingRangeSettings(min=128, step=128, max=2048),
    ),
)
# The releases that wrote these logs count decode lengths in tokens. A block has one token here, so that lengths in
# blocks and in tokens are equal.
TWO_DIMENSIONAL_LIMITS = Limits(
    max_model_len=2048,
    max_num_seqs=4,
    max_num_prefill_seqs=4,
    max_num_batched_tokens=4096,
    block_size=1,
    contiguous_paged_attention=False,
)
