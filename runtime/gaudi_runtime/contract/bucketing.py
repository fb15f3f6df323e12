"""The settings of buckets, and the limits that determine them (docs/internals/planning.md)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_runtime.contract.base import WireModel

Tokens = Annotated[int, Field(ge=1, le=16_777_216)]
Sequences = Annotated[int, Field(ge=1, le=65_536)]
GraphCount = Annotated[int, Field(ge=1, le=20_000)]
MOST_TEXT = 65_536
"""The most characters of a bucket file or of traffic, which the resource, its revisions and ConfigMaps contain."""
MOST_DRAFTS = 64
"""The most drafts of a sequence, which is more than any useful number."""
RangeValue = Annotated[int, Field(ge=0, le=16_777_216)]


class Strategy(StrEnum):
    """The bucketing strategy in the contract: the method that chooses the values of a bucket dimension."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    PADDING_AWARE = "paddingAware"
    FILE = "file"
    OPTIMAL = "optimal"


class ValueRange(WireModel):
    """The contract's range of one dimension in one phase. Fields without a value use the strategy's default."""

    min: RangeValue | None = Field(None, description="Smallest value of the range.")
    step: Annotated[int, Field(ge=1, le=16_777_216)] | None = Field(
        None, description="Distance between two values after the ramp-up."
    )
    max: RangeValue | None = Field(None, description="Largest value of the range.")


class BucketingRangeSettings(ValueRange):
    """The contract's range of one dimension, with the limits of strategy `PaddingAware`."""

    pad_max: RangeValue | None = Field(None, description="Maximum padding in tokens, sequences or blocks.")
    pad_percent: Annotated[int, Field(ge=0, le=50)] | None = Field(
        None, description="Maximum padding in percent of the bucket."
    )


class PromptRanges(WireModel):
    """The contract's ranges of prompt (prefill) buckets: (batch size, query tokens, context blocks)."""

    batch_size: BucketingRangeSettings = Field(BucketingRangeSettings(), description="Sequences in a prompt batch.")
    query: BucketingRangeSettings = Field(BucketingRangeSettings(), description="New tokens per sequence.")
    context: BucketingRangeSettings = Field(
        BucketingRangeSettings(), description="Cached context per sequence, in KV blocks."
    )


class DecodeRanges(WireModel):
    """The contract's ranges of decode buckets: (batch size, 1, KV blocks of the whole batch)."""

    batch_size: BucketingRangeSettings = Field(BucketingRangeSettings(), description="Sequences in a decode batch.")
    blocks: BucketingRangeSettings = Field(
        BucketingRangeSettings(), description="KV blocks referenced by the whole batch."
    )


class OptimalSettings(WireModel):
    """The contract's settings of strategy `Optimal`: the traffic, and the budget for reducing its padding.

    At most one kind of budget is set: graphs per phase, or bytes or seconds for both phases together. Without a budget,
    each phase gets the fewest graphs that pad the traffic no more than strategy `Exponential`
    (docs/internals/planning.md).
    """

    # An empty text is valid here. The planner rejects an empty text with a full sentence.
    traffic: Annotated[str, Field(max_length=MOST_TEXT)] | None = Field(
        None, description="Batch shapes, one per line; when left out, all sizes have the same weight."
    )
    prompt_graphs: GraphCount | None = Field(None, description="Maximum number of prompt buckets.")
    decode_graphs: GraphCount | None = Field(None, description="Maximum number of decode buckets.")
    graph_bytes: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Maximum size of all graphs together in bytes."
    )
    warmup_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = Field(
        None, description="Maximum time for compiling and capturing all graphs in seconds."
    )


class BucketPolicy(WireModel):
    """The contract's bucketing settings, which determine the buckets that a server prepares for padded batches."""

    strategy: Strategy = Field(Strategy.OPTIMAL, description="How the values of each dimension are chosen.")
    prompt: PromptRanges = Field(PromptRanges(), description="Overrides for prompt (prefill) buckets.")
    decode: DecodeRanges = Field(DecodeRanges(), description="Overrides for decode buckets.")
    file: Annotated[str, Field(max_length=MOST_TEXT)] | None = Field(
        None,
        description="Buckets of strategy File, one per line: (batch size, query, blocks).",
    )
    optimal: OptimalSettings | None = Field(None, description="Traffic and budget of strategy Optimal.")


class BucketingAttentionSlices(WireModel):
    """The slices in which fused attention processes prompts of a sliding-window model, as limits of bucketing."""

    tokens: Tokens = Field(1024, description="Number of tokens of a slice.")
    from_tokens: Tokens = Field(8192, description="Query length in tokens from which prompts are computed in slices.")


class Limits(WireModel):
    """The limits of bucketing in the contract. A plan depends on these limits and the KV blocks of the device."""

    max_model_len: Tokens = Field(description="Longest sequence, prompt and answer together, in tokens.")
    max_num_seqs: Sequences = Field(description="Most sequences in a decode batch.")
    max_num_prefill_seqs: Sequences = Field(1, description="Most sequences in a prompt batch.")
    max_num_batched_tokens: Tokens = Field(description="Most tokens in a prompt batch, padding included.")
    block_size: Annotated[int, Field(ge=1, le=4096)] = Field(128, description="Tokens per KV block.")
    contiguous_paged_attention: bool = Field(
        True, description="Whether decode attention reads one contiguous range of KV blocks."
    )
    prefix_caching: bool = Field(
        False,
        description="Whether prompts reuse cached blocks, so that prompt buckets have a context dimension.",
    )
    sliding_window_slices: BucketingAttentionSlices | None = Field(
        None, description="Slices of fused attention: long prompts without context are then whole slices."
    )
    # The default is None instead of 0, because absent fields do not change the hash of a plan.
    draft_tokens: Annotated[int, Field(ge=1, le=MOST_DRAFTS)] | None = Field(
        None, description="Tokens that speculative decoding drafts for a sequence and step; none without it."
    )
    splits_prompts: bool | None = Field(
        None,
        description="Whether a prompt may be computed in several steps: its later pieces then have context, also"
        " without prefix caching.",
    )
    gapless: bool | None = Field(
        None,
        description="Whether ranges are extended until every batch that the limits admit has a bucket. When left out,"
        " the ranges are those of the plugin's own planner.",
    )
    joint_batches: bool | None = Field(
        None,
        description="Whether engine cores pad each batch to the largest batch of all cores, as for a mixture of experts"
        " with data parallelism. The runtime sets this, because it knows the model.",
    )
    steps_by_tokens: bool | None = Field(
        None,
        description="Whether a step that holds a prompt is one prompt of all its tokens, without context, as for vLLM"
        " on a CPU, whose compiled code depends on nothing else; left out otherwise.",
    )

    @property
    def has_context(self) -> bool:
        """Return whether prompt buckets have a context dimension."""
        return not self.steps_by_tokens and (self.prefix_caching or bool(self.splits_prompts))

    @property
    def longest_query(self) -> int:
        """Return the most new tokens of one prompt in one step."""
        if self.steps_by_tokens:
            return self.max_num_batched_tokens
        return min(self.max_num_batched_tokens, self.max_model_len)
