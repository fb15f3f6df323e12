"""Reading the ranges from the plugin's environment variables, with their old and new names."""

import pytest

from gaudi_runtime.contract.bucketing import RangeSettings, Strategy
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.planning.bare_limits import policy_from_env


def test_variables_become_range_settings() -> None:
    policy = policy_from_env(
        Strategy.LINEAR, {"VLLM_DECODE_BLOCK_BUCKET_MAX": 512, "VLLM_PROMPT_QUERY_BUCKET_PAD_PERCENT": "50"}
    )
    assert policy.decode.blocks == RangeSettings(max=512)
    assert policy.prompt.query == RangeSettings(pad_percent=50)


def test_old_name_of_query_is_read() -> None:
    policy = policy_from_env(Strategy.LINEAR, {"VLLM_PROMPT_SEQ_BUCKET_STEP": 256})
    assert policy.prompt.query == RangeSettings(step=256)


def test_new_name_of_query_has_precedence_over_the_old() -> None:
    names = {"VLLM_PROMPT_QUERY_BUCKET_STEP": 128, "VLLM_PROMPT_SEQ_BUCKET_STEP": 256}
    assert policy_from_env(Strategy.LINEAR, names).prompt.query == RangeSettings(step=128)


@pytest.mark.parametrize("name", ["VLLM_SKIP_WARMUP", "--max-model-len", "VLLM_DEFRAG_THRESHOLD"])
def test_knob_that_is_no_bucket_variable_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not a bucket variable\\. Remove {name} from env"):
        policy_from_env(Strategy.LINEAR, {name: 1})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("VLLM_PROMPT_QUERY_BUCKET_MX", "VLLM_PROMPT_QUERY_BUCKET_MAX"),
        ("VLLM_PROMPT_BLOCK_BUCKET_MAX", "VLLM_PROMPT_CTX_BUCKET_MAX"),
        ("VLLM_DECODE_QUERY_BUCKET_MAX", "VLLM_PROMPT_QUERY_BUCKET_MAX"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} .* knob .*{near}"):
        policy_from_env(Strategy.LINEAR, {name: 1})


@pytest.mark.parametrize("value", ["many", "1.5", True, ""])
def test_value_that_is_no_whole_number_is_refused(value: str | int) -> None:
    with pytest.raises(ConfigError, match=r"VLLM_PROMPT_BS_BUCKET_MAX: .* is not a whole number"):
        policy_from_env(Strategy.LINEAR, {"VLLM_PROMPT_BS_BUCKET_MAX": value})


def test_step_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"VLLM_PROMPT_QUERY_BUCKET_STEP: .* got 0"):
        policy_from_env(Strategy.LINEAR, {"VLLM_PROMPT_QUERY_BUCKET_STEP": 0})


def test_refusal_of_a_value_has_the_old_variable_name() -> None:
    with pytest.raises(ConfigError, match=r"^VLLM_PROMPT_SEQ_BUCKET_STEP: "):
        policy_from_env(Strategy.LINEAR, {"VLLM_PROMPT_SEQ_BUCKET_STEP": 0})
