"""spec.bucketing: which buckets a server prepares for padded batches."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gaudi_operator.api.base import ApiModel, Quantity
from gaudi_operator.api.schema_keywords import (
    SchemaRule,
    replace_default_keyword,
    rules_keyword,
    schema_config_with_rules,
)
from gaudi_operator.api.spelling import ContractEnumSpelling, cel_is_one_of_spellings
from gaudi_runtime.contract import bucketing as contract
from gaudi_runtime.contract.bucketing import MOST_TEXT, GraphCount, Strategy


class ValueRange(contract.ValueRange):
    """Range of one dimension of one phase. A value that is not set has the default of the strategy."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra=rules_keyword(
            SchemaRule(
                rule="!has(self.min) || !has(self.max) || self.min <= self.max",
                message="min must be at most max: the range would be empty",
            )
        ),
    )


class PromptRanges(ApiModel):
    """Ranges of prompt (prefill) buckets: (batch size, query tokens, context blocks)."""

    batch_size: ValueRange = Field(ValueRange(), description="Range of the number of sequences in a prompt batch.")
    query: ValueRange = Field(ValueRange(), description="Range of the number of new tokens per sequence.")
    context: ValueRange = Field(
        ValueRange(),
        description="Range of the cached context per sequence, in KV blocks. Used only with engine.prefixCaching, or"
        " on cards for prompts that are split over several steps.",
    )


class DecodeRanges(ApiModel):
    """Ranges of decode buckets: (batch size, 1, KV blocks of the whole batch)."""

    batch_size: ValueRange = Field(ValueRange(), description="Range of the number of sequences in a decode batch.")
    blocks: ValueRange = Field(
        ValueRange(), description="Range of the number of KV blocks that the whole batch refers to."
    )


class PaddingAware(ApiModel):
    """Limit of strategy PaddingAware, for every dimension of both phases."""

    max_padding_percent: Annotated[int, Field(ge=0, le=50)] = Field(
        25, description="Maximum padding in percent of the bucket."
    )


class OptimalSettings(ApiModel):
    """Traffic and budget of strategy Optimal. The strategy minimizes the padding of this traffic within the budget."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="[has(self.promptGraphs) || has(self.decodeGraphs), has(self.graphMemory), "
            "has(self.warmupSeconds)].filter(given, given).size() <= 1",
            message="spec.bucketing.optimal must set only one budget: promptGraphs and decodeGraphs, graphMemory, "
            "or warmupSeconds",
        ),
        SchemaRule(
            rule="!has(self.graphMemory) || quantity(string(self.graphMemory)).compareTo(quantity('1')) >= 0 &&"
            " quantity(string(self.graphMemory)).compareTo(quantity('1Pi')) <= 0",
            message="spec.bucketing.optimal.graphMemory must be from 1 to 1Pi",
        ),
    )
    traffic: Annotated[str, Field(max_length=MOST_TEXT)] | None = Field(
        None,
        description="Batch shapes of the traffic, one per line: phase, batch size, query, blocks and weight, such as"
        " 'prompt 1 412 0 17'. Pods report this text at /v1/traffic. When left out, all sizes of prompts and steps"
        " have the same weight.",
    )
    prompt_graphs: GraphCount | None = Field(
        None,
        description="Maximum number of prompt buckets. Only one kind of budget may be set: graphs, memory or seconds.",
    )
    decode_graphs: GraphCount | None = Field(None, description="Maximum number of decode buckets.")
    graph_memory: Quantity | None = Field(
        None, description="Maximum memory of all graphs together, estimated from the logs of a Gaudi 2."
    )
    warmup_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = Field(
        None,
        description="Maximum time for compiling and capturing all graphs in seconds, estimated from the logs of a Gaudi"
        " 2.",
    )


class Gaps(StrEnum):
    """The reaction to a plan that lacks buckets for batches that the limits allow."""

    REFUSE = "Refuse"
    ALLOW = "Allow"


class Bucketing(ApiModel):
    """Buckets that a server prepares. Each request is padded to the smallest bucket that fits the request."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule=f"{cel_is_one_of_spellings('strategy', Strategy.FILE)} == has(self.file)",
            message="spec.bucketing must set file with strategy File, and only with this strategy",
        ),
        SchemaRule(
            rule=f"!has(self.optimal) || {cel_is_one_of_spellings('strategy', Strategy.OPTIMAL)}",
            message="spec.bucketing.optimal is only for strategy Optimal: remove it, or set that strategy",
        ),
        SchemaRule(
            rule=f"!has(self.paddingAware) || {cel_is_one_of_spellings('strategy', Strategy.PADDING_AWARE)}",
            message="spec.bucketing.paddingAware is only for strategy PaddingAware: remove it, or set that strategy",
        ),
    )
    strategy: Annotated[Strategy, ContractEnumSpelling()] = Field(
        Strategy.OPTIMAL,
        description="Method that selects the bucket sizes of each dimension. Default: Optimal.",
        json_schema_extra=replace_default_keyword,
    )
    gaps: Gaps = Field(
        Gaps.REFUSE,
        description="Reaction to a plan that lacks buckets for batches that the limits allow. Refuse extends ranges up"
        " to the limits, and rejects a file with gaps. With Allow, requests of such a batch wait seconds to minutes"
        " for a compile.",
    )
    prompt: PromptRanges = Field(PromptRanges(), description="Ranges of prompt (prefill) buckets.")
    decode: DecodeRanges = Field(DecodeRanges(), description="Ranges of decode buckets.")
    padding_aware: PaddingAware | None = Field(None, description="Limit of strategy PaddingAware.")
    file: Annotated[str, Field(max_length=MOST_TEXT)] | None = Field(
        None, description="Buckets of strategy File, one per line: (batch size, query, blocks)."
    )
    optimal: OptimalSettings | None = Field(None, description="Traffic and budget of strategy Optimal.")
