"""spec.bucketing: the bucket policy of the runtime contract, as a field of a resource.

The contract rejects unknown fields, because a RuntimeConfig may contain typing errors. The API server has already
pruned unknown fields of a resource, so an unknown field here belongs to a newer CRD and is ignored.
"""

from typing import Annotated

from pydantic import ConfigDict, Field

from gaudi_operator.api.schema_keywords import Rule, config_with_rules, mark_operator_default, rules_keyword
from gaudi_operator.api.spelling import ContractEnum, cel_is_one_of
from gaudi_runtime.contract import bucketing as contract
from gaudi_runtime.contract.bucketing import Strategy

_RANGES = ("prompt.?batchSize", "prompt.?query", "prompt.?context", "decode.?batchSize", "decode.?blocks")


def _cel_none_set(*fields: str) -> str:
    """Return a CEL expression that is true if none of `fields` is set in any range."""
    paths = ", ".join(f"self.?{range_path}.?{field}" for range_path in _RANGES for field in fields)
    return f"![{paths}].exists(value, value.hasValue())"


class RangeSettings(contract.RangeSettings):
    """Range of one dimension of one phase. A value that is not set has the default of the strategy."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra=rules_keyword(
            Rule(
                rule="!has(self.min) || !has(self.max) || self.min <= self.max",
                message="min must be at most max: the range would be empty",
            )
        ),
    )


class PromptRanges(contract.PromptRanges):
    """Ranges of prompt (prefill) buckets: (batch size, query tokens, context blocks)."""

    model_config = ConfigDict(extra="ignore")
    batch_size: RangeSettings = Field(
        RangeSettings(), description="Range of the number of sequences in a prompt batch."
    )
    query: RangeSettings = Field(RangeSettings(), description="Range of the number of new tokens per sequence.")
    context: RangeSettings = Field(
        RangeSettings(),
        description="Range of the cached context per sequence, in KV blocks. Used only with engine.prefixCaching, or"
        " on cards for prompts that are split over several steps.",
    )


class DecodeRanges(contract.DecodeRanges):
    """Ranges of decode buckets: (batch size, 1, KV blocks of the whole batch)."""

    model_config = ConfigDict(extra="ignore")
    batch_size: RangeSettings = Field(
        RangeSettings(), description="Range of the number of sequences in a decode batch."
    )
    blocks: RangeSettings = Field(
        RangeSettings(), description="Range of the number of KV blocks that the whole batch refers to."
    )


class OptimalSettings(contract.OptimalSettings):
    """Traffic and budget of strategy Optimal. The strategy minimizes the padding of this traffic within the budget."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra=rules_keyword(
            Rule(
                rule="[has(self.promptGraphs) || has(self.decodeGraphs), has(self.graphBytes), "
                "has(self.warmupSeconds)].filter(given, given).size() <= 1",
                message="spec.bucketing.optimal must set only one budget: promptGraphs and decodeGraphs, graphBytes, "
                "or warmupSeconds",
            ),
        ),
    )


class Bucketing(contract.BucketPolicy):
    """Buckets that a server prepares. Each request is padded to the smallest bucket that fits the request."""

    model_config = ConfigDict(
        extra="ignore",
        **config_with_rules(
            Rule(
                rule=f"{cel_is_one_of('strategy', Strategy.FILE)} == has(self.file)",
                message="spec.bucketing must set file with strategy File, and only with this strategy",
            ),
            Rule(
                rule=f"!has(self.optimal) || {cel_is_one_of('strategy', Strategy.OPTIMAL)}",
                message="spec.bucketing.optimal is only for strategy Optimal: remove it, or set that strategy",
            ),
            Rule(
                rule=f"{cel_is_one_of('strategy', Strategy.PADDING_AWARE)} || {_cel_none_set('padMax', 'padPercent')}",
                message="spec.bucketing: padMax and padPercent are only for strategy PaddingAware: remove them",
            ),
        ),
    )
    strategy: Annotated[Strategy, ContractEnum()] = Field(
        Strategy.EXPONENTIAL,
        description="Method that selects the bucket sizes of each dimension. Default: Exponential.",
        json_schema_extra=mark_operator_default,
    )
    prompt: PromptRanges = Field(PromptRanges(), description="Ranges of prompt (prefill) buckets.")
    decode: DecodeRanges = Field(DecodeRanges(), description="Ranges of decode buckets.")
    optimal: OptimalSettings | None = Field(None, description="Traffic and budget of strategy Optimal.")
    allow_gaps: bool = Field(
        False,
        description="Whether the plan may lack buckets for batches that the limits allow. Requests of such a batch"
        " wait seconds to minutes for a compile. If false, ranges are extended up to the limits, and a file with gaps"
        " is rejected.",
    )
