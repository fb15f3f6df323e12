"""The engine configurations that the tests run on the plugin's own code."""

import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    OptimalSettings,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.contract.config import (
    Dtype,
    EngineConfig,
    EngineName,
    ExecutionMode,
    ModelConfig,
    RuntimeConfig,
    ServingConfig,
    WarmupConfig,
)

T = TypeVar("T")
GRAPHS, COMPILE = ExecutionMode.HPU_GRAPHS, ExecutionMode.TORCH_COMPILE
STRATEGIES = (Strategy.LINEAR, Strategy.EXPONENTIAL, Strategy.PADDING_AWARE, Strategy.OPTIMAL)
TRAFFIC = "prompt 1 90 0 5\nprompt 1 300 0 3\nprompt 1 500 2 1\nprompt 1 100 3 1\ndecode 1 1 2 5\ndecode 4 1 20 5\n"


@dataclass(frozen=True)
class Case:
    """One configuration of the engine."""

    strategy: Strategy
    prefix_caching: bool
    contiguous: bool
    family: str
    mode: ExecutionMode

    @property
    def name(self) -> str:
        """The name of the case in test IDs."""
        caching = "prefix-caching" if self.prefix_caching else "no-prefix-caching"
        blocks = "contiguous" if self.contiguous else "scattered"
        return f"{self.strategy}-{caching}-{blocks}-{self.family}-{self.mode}"


MATRIX = tuple(
    Case(*each) for each in product(STRATEGIES, (False, True), (True, False), ("llama", "qwen3"), (GRAPHS, COMPILE))
)

DEFAULT = Case(Strategy.LINEAR, False, True, "llama", COMPILE)
"""The default execution mode, with the plan that warms up fastest."""

QUICK = (
    Case(Strategy.LINEAR, False, True, "llama", GRAPHS),
    Case(Strategy.EXPONENTIAL, False, False, "llama", COMPILE),
    Case(Strategy.EXPONENTIAL, True, True, "qwen3", GRAPHS),
    Case(Strategy.PADDING_AWARE, True, False, "llama", GRAPHS),
    Case(Strategy.OPTIMAL, False, True, "qwen3", COMPILE),
)
"""Cases that cover every value of every column. `test_speculative.py` adds prefix caching with TorchCompile."""


def in_matrix(default: T, *others: T) -> tuple[T, ...]:
    """Return one case for `make test`, and all cases for `make plugin`. Each start takes most of a minute."""
    return (default, *others) if os.environ.get("PLUGIN_MATRIX") else (default,)


def case_config(case: Case, checkpoint: Path, pieces: bool = True) -> RuntimeConfig:
    """Return a configuration with at most 4 sequences of 1024 tokens.

    Prompts are split at 512 tokens. With `pieces`, the plan covers the pieces of split prompts.
    """
    planned = True if pieces and not case.prefix_caching else None
    return RuntimeConfig(
        model=ModelConfig(path=str(checkpoint), served_names=("tiny",), dtype=Dtype.BFLOAT16),
        engine=EngineConfig(
            name=EngineName.VLLM,
            execution_mode=case.mode,
            device="hpu",
            card="gaudi3",
            settings={"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
        ),
        limits=Limits(
            max_model_len=1024,
            max_num_seqs=4,
            # With PaddingAware, the plugin may slice attention. PaddingAware therefore requires at least 1024 tokens.
            max_num_batched_tokens=1024 if case.strategy is Strategy.PADDING_AWARE else 512,
            block_size=128,
            prefix_caching=case.prefix_caching,
            splits_prompts=planned,
            gapless=planned,
            contiguous_paged_attention=case.contiguous,
        ),
        bucketing=_buckets(case.strategy),
        warmup=WarmupConfig(),
        serving=ServingConfig(),
    )


def _buckets(strategy: Strategy) -> BucketPolicy:
    if strategy is Strategy.OPTIMAL:
        return BucketPolicy(
            strategy=strategy, optimal=OptimalSettings(traffic=TRAFFIC, prompt_graphs=4, decode_graphs=4)
        )
    return BucketPolicy(
        strategy=strategy,
        prompt=PromptRanges(
            query=BucketingRangeSettings(min=128, step=128, max=512), context=BucketingRangeSettings(max=4)
        ),
        decode=DecodeRanges(
            batch_size=BucketingRangeSettings(min=1, step=2, max=4),
            blocks=BucketingRangeSettings(min=8, step=8, max=24),
        ),
    )
