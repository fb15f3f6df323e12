"""spec.engine: the engine that runs the model, and its limits."""

from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from gaudi_operator.api.base import ApiModel, number_as_text
from gaudi_operator.api.schema_keywords import (
    SchemaRule,
    list_map_keywords,
    replace_default_keyword,
    rules_keyword,
    schema_config_with_rules,
)
from gaudi_operator.api.spelling import ContractEnumSpelling
from gaudi_operator.api.v1alpha1.pods.containers import Argument, EnvVar
from gaudi_runtime.contract.bucketing import Sequences, Tokens
from gaudi_runtime.contract.config import EngineName, ExecutionMode

MOST_SETTINGS = 128
SettingName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Setting = Annotated[
    str,
    StringConstraints(max_length=1024),
    BeforeValidator(number_as_text),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True}),
]
"""A string, or a whole number without quotes."""


class Engine(ApiModel):
    """Engine, execution mode, and limits that determine the bucket plan."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="!has(self.maxNumPrefillSeqs) || self.maxNumPrefillSeqs <= self.maxNumSeqs",
            message="spec.engine.maxNumPrefillSeqs must be at most maxNumSeqs",
        ),
        SchemaRule(
            rule="!has(self.maxNumBatchedTokens) || self.maxNumBatchedTokens >= self.blockSize",
            message="spec.engine.maxNumBatchedTokens must be at least blockSize: no prompt bucket fits otherwise",
        ),
        SchemaRule(
            rule="self.name == 'vllm' || !has(self.extraArgs) || self.extraArgs.size() == 0",
            message="spec.engine.extraArgs is only for the vllm engine: remove it",
        ),
    )
    name: EngineName = Field(EngineName.VLLM, description="Engine: vllm, or sim (a simulation that runs no model).")
    execution_mode: Annotated[ExecutionMode, ContractEnumSpelling()] | None = Field(
        None,
        description="How a bucket is prepared: HpuGraphs captures a graph, TorchCompile compiles a graph, Lazy and"
        " Eager capture no graph. When left out: TorchCompile. If a release changes this default, a running revision"
        " keeps its mode until another field changes.",
    )
    block_size: Annotated[int, Field(ge=1, le=4096)] = Field(128, description="Number of tokens per KV block.")
    max_num_seqs: Sequences = Field(128, description="Maximum number of sequences in a decode batch.")
    max_num_batched_tokens: Tokens | None = Field(
        None,
        description="Maximum number of tokens in a prompt batch, including padding. When left out: model.maxModelLen.",
    )
    max_num_prefill_seqs: Sequences = Field(1, description="Maximum number of sequences in a prompt batch.")
    device_memory_utilization_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        90,
        description="Share of memory that the engine may use, in percent of the memory that is free after the profile"
        " run. Default: 90.",
        json_schema_extra=replace_default_keyword,
    )
    prefix_caching: bool = Field(
        False,
        description="Whether prompts reuse KV blocks of earlier prompts with the same prefix. Prompt buckets then have"
        " a context dimension.",
    )
    chunked_prefill: bool | None = Field(
        None,
        description="Whether a prompt may be split over several steps. When left out, prompts are split only if"
        " maxNumBatchedTokens is below model.maxModelLen. Only with the vllm engine. Later parts of a prompt have"
        " cached context, so the plan has several prompt buckets for each query length.",
    )
    settings: Annotated[dict[SettingName, Setting], Field(max_length=MOST_SETTINGS)] = Field(
        {},
        description="Environment variables and arguments of the engine that have no field, by name."
        " docs/reference/knobs.md lists the names. The operator validates names and values before a pod starts. Use"
        " extraArgs for other arguments, and env for other variables. With the sim engine, names that begin with a"
        " lower-case letter are its script (docs/reference/sim.md).",
        json_schema_extra=rules_keyword(
            SchemaRule(
                rule="self.all(key, key.matches('^(--)?[A-Za-z][A-Za-z0-9_-]*$'))",
                message="every name must be a variable such as VLLM_DEFRAG_THRESHOLD or an argument such as"
                " --async-scheduling",
            )
        ),
    )
    extra_args: Annotated[tuple[Argument, ...], Field(max_length=64)] = Field(
        (),
        description="Arguments of the vllm engine that no field and no entry of settings sets. Write --name=value, or"
        " --name followed by the values as separate entries. vLLM validates the arguments at its start.",
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64)] = Field(
        (),
        description="Environment variables of the runtime container that are not in docs/reference/knobs.md.",
        json_schema_extra=list_map_keywords("name"),
    )
