"""Limits of a server in the names and variables of public planners (docs/internals/bucketing.md, Asking)."""

from typing import Any

import pytest
from pydantic import ValidationError

from gaudi_runtime.contract.bucketing import Limits, RangeSettings, Strategy
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.bare_limits import read_bare_limits

SHORT = {"max_model_len": 1024, "max_num_seqs": 8, "max_num_batched_tokens": 2048}
FULL = {
    **SHORT,
    "max_num_prefill_seqs": 3,
    "block_size": 64,
    "contiguous_pa": False,
    "prefix_caching": False,
}


def read(**more: Any) -> Any:
    return read_bare_limits({**SHORT, **more})


def test_every_bare_limit_is_read() -> None:
    assert read_bare_limits(FULL).limits == Limits(
        max_model_len=1024,
        max_num_seqs=8,
        max_num_prefill_seqs=3,
        max_num_batched_tokens=2048,
        block_size=64,
        contiguous_paged_attention=False,
        prefix_caching=False,
    )


def test_missing_limits_have_the_defaults_of_public_servers() -> None:
    assert read().limits == Limits(
        max_model_len=1024,
        max_num_seqs=8,
        max_num_prefill_seqs=1,
        max_num_batched_tokens=2048,
        block_size=128,
        contiguous_paged_attention=True,
        prefix_caching=True,
    )


def test_policy_has_strategy_variables_and_file() -> None:
    policy = read(strategy="lin", env={"VLLM_PROMPT_BS_BUCKET_MAX": 4}, file="(1, 128, 0)").policy
    assert (policy.strategy, policy.file) == (Strategy.LINEAR, "(1, 128, 0)")
    assert policy.prompt.batch_size == RangeSettings(max=4)


def test_policy_without_variables_sets_no_range() -> None:
    assert read().policy.prompt.batch_size == RangeSettings()


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("exp", Strategy.EXPONENTIAL),
        ("lin", Strategy.LINEAR),
        ("pad", Strategy.PADDING_AWARE),
        ("linear", Strategy.LINEAR),
        ("PaddingAware", Strategy.PADDING_AWARE),
        ("Unified", Strategy.UNIFIED),
    ],
)
def test_strategy_is_read_by_short_and_full_names(name: str, strategy: Strategy) -> None:
    assert read(strategy=name).strategy is strategy


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"strategy": "best"}, "Input should be"),
        ({"seqs": 4}, "Extra inputs are not permitted"),
        ({"max_num_seqs": 0}, "greater than or equal to 1"),
        (
            {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": True}},
            "Value error, a variable must be a whole number, or a string with a whole number",
        ),
        (
            {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": 1.5}},
            "Value error, a variable must be a whole number, or a string with a whole number",
        ),
        (
            {"strategy": "lin", "release": "1.22"},
            "Value error, release 1.22 supports only the strategies exponential and unified, but strategy is linear",
        ),
        ({"release": "1.23"}, "Input should be 'current' or '1.22'"),
        ({"prompt": {"buckets": 3}}, "Extra inputs are not permitted"),
        ({"other": {"sha256": "0"}}, "Extra inputs are not permitted"),
        ({"prompt": ["sha256"]}, "Extra inputs are not permitted"),
    ],
)
def test_wrong_field_is_refused(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read(**more)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("strategy", ["exp", "unified"])
def test_release_1_22_has_exponential_and_unified_plans(strategy: str) -> None:
    assert read(strategy=strategy, release="1.22").release == "1.22"


def test_expected_results_of_a_test_vector_are_ignored() -> None:
    recorded = {"count": 1, "sha256": "0"}
    assert read(prompt=recorded, decode=recorded, lookups=[]) == read()


def test_variable_may_be_a_number_in_quotes() -> None:
    assert read(strategy="lin", env={"VLLM_DECODE_BLOCK_BUCKET_STEP": "7"}).policy.decode.blocks.step == 7


def test_wrong_variable_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"^VLLM_PROMPT_BS_BUCKET_MAX: 'many' is not a whole number$"):
        _ = read(strategy="lin", env={"VLLM_PROMPT_BS_BUCKET_MAX": "many"}).policy
