"""spec.bucketing: the contract's bucket policy as users write it.

The contract refuses unknown fields, because a typing error in a RuntimeConfig must not pass. The API server
has already refused those of a resource, so what is unknown here comes from a newer CRD and is dropped.
"""

from typing import Annotated

from pydantic import ConfigDict, Field

from gaudi_operator.api.base import ApiModel, ConfigMapKey, Rule, meant_when_left_out, rules, validated_by
from gaudi_operator.api.spelling import OwnWord, says
from gaudi_runtime.contract import bucketing as contract
from gaudi_runtime.contract.bucketing import Strategy

# gaudi-plan lists unified buckets, but no engine of ours makes such batches.
ServedStrategy = Annotated[Strategy, OwnWord(without=(Strategy.UNIFIED,))]

_RANGES = ("prompt.?batchSize", "prompt.?query", "prompt.?context", "decode.?batchSize", "decode.?blocks")


def _nowhere(*fields: str) -> str:
    """CEL that holds when none of `fields` is set in any range."""
    paths = ", ".join(f"self.?{each}.?{field}" for each in _RANGES for field in fields)
    return f"![{paths}].exists(value, value.hasValue())"


class RangeSettings(contract.RangeSettings):
    """One dimension of one phase. A value left out takes the default of the strategy."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra=rules(
            Rule(
                rule="!has(self.min) || !has(self.max) || self.min <= self.max",
                message="min must be at most max: the range would be empty",
            )
        ),
    )


class PromptRanges(contract.PromptRanges):
    """Ranges of prompt (prefill) buckets: (batch size, query tokens, context blocks)."""

    model_config = ConfigDict(extra="ignore")
    batch_size: RangeSettings = Field(RangeSettings(), description="Sequences in a prompt batch.")
    query: RangeSettings = Field(RangeSettings(), description="New tokens per sequence.")
    context: RangeSettings = Field(
        RangeSettings(),
        description="Cached context per sequence, in KV blocks: with prefixCaching, or on a card for prompts that are"
        " split over steps.",
    )


class DecodeRanges(contract.DecodeRanges):
    """Ranges of decode buckets: (batch size, 1, KV blocks of the whole batch)."""

    model_config = ConfigDict(extra="ignore")
    batch_size: RangeSettings = Field(RangeSettings(), description="Sequences in a decode batch.")
    blocks: RangeSettings = Field(RangeSettings(), description="KV blocks referenced by the whole batch.")


class TextSource(ApiModel):
    """Where a long text stands. It is read when a revision is made, and belongs to it from then on."""

    config_map_key_ref: ConfigMapKey = Field(description="Key of a ConfigMap in the same namespace.")


class OptimalSettings(contract.OptimalSettings):
    """Traffic and a budget: strategy Optimal pads this traffic least within it."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra=rules(
            Rule(
                rule="[has(self.promptGraphs) || has(self.decodeGraphs), has(self.graphBytes), "
                "has(self.warmupSeconds)].filter(given, given).size() <= 1",
                message="spec.bucketing.optimal takes one kind of budget: promptGraphs and decodeGraphs, graphBytes, "
                "or warmupSeconds",
            ),
            Rule(
                rule="!(has(self.traffic) && has(self.trafficFrom))",
                message="spec.bucketing.optimal must name at most one of traffic and trafficFrom",
            ),
        ),
    )
    traffic_from: TextSource | None = Field(None, description="A ConfigMap that has the traffic.")


class Bucketing(contract.BucketPolicy):
    """Which buckets a server prepares: every request is padded to the smallest one that holds it."""

    model_config = ConfigDict(
        extra="ignore",
        **validated_by(
            Rule(
                rule=f"{says('strategy', Strategy.FILE)} == (has(self.file) || has(self.fileFrom))",
                message="spec.bucketing.file or fileFrom belongs to strategy File: give both or neither",
            ),
            Rule(
                rule="!(has(self.file) && has(self.fileFrom))",
                message="spec.bucketing must name one of file and fileFrom",
            ),
            Rule(
                rule=f"!has(self.optimal) || {says('strategy', Strategy.OPTIMAL)}",
                message="spec.bucketing.optimal belongs to strategy Optimal: remove it, or choose that strategy",
            ),
            Rule(
                rule=f"{says('strategy', Strategy.PADDING_AWARE)} || {_nowhere('padMax', 'padPercent')}",
                message="spec.bucketing: padMax and padPercent are only for strategy PaddingAware",
            ),
        ),
    )
    strategy: ServedStrategy = Field(
        Strategy.EXPONENTIAL,
        description="How the values of each dimension are chosen; Exponential when left out.",
        json_schema_extra=meant_when_left_out,
    )
    prompt: PromptRanges = Field(PromptRanges(), description="Overrides for prompt (prefill) buckets.")
    decode: DecodeRanges = Field(DecodeRanges(), description="Overrides for decode buckets.")
    optimal: OptimalSettings | None = Field(None, description="Traffic and budget of strategy Optimal.")
    file_from: TextSource | None = Field(None, description="A ConfigMap that has the buckets of strategy File.")
    allow_gaps: bool = Field(
        False,
        description="Whether the plan may leave batches that the limits admit without a bucket; the requests of such a"
        " batch wait for a compile of seconds to minutes. If false, ranges are extended up to the limits, and a file"
        " with gaps is refused.",
    )
