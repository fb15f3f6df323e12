"""Entries of engine.settings that become typed fields of a RuntimeConfig."""

from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketingAttentionSlices, Limits
from gaudi_runtime.contract.config import CaptureOrder, WarmupConfig
from gaudi_runtime.knobs.fields import SETTING_FIELDS, SLICED, split_settings_by_field
from gaudi_runtime.knobs.table import KnobHome, KnobType, knobs

LIMITS = {"max_model_len": 4096, "max_num_seqs": 4, "max_num_batched_tokens": 4096}


def limits(**settings: str) -> Limits:
    return Limits(**LIMITS, **split_settings_by_field(settings).limits)


def warmup(settings: dict[str, str]) -> WarmupConfig:
    return WarmupConfig(**split_settings_by_field(settings).warmup)


@pytest.mark.parametrize(("word", "value"), [("no", False), ("True", True)])
def test_contiguous_attention_is_a_limit(word: str, value: bool) -> None:
    assert limits(VLLM_CONTIGUOUS_PA=word).contiguous_paged_attention is value


def test_slices_are_a_limit_with_their_sizes() -> None:
    sizes = {"PT_HPU_SDPA_BC_FACTOR": "512", "VLLM_FUSEDSDPA_SLIDE_THLD": "4096"}
    assert limits(**{SLICED: "1"}, **sizes).sliding_window_slices == BucketingAttentionSlices(
        tokens=512, from_tokens=4096
    )


@pytest.mark.parametrize("settings", [{}, {SLICED: "false"}], ids=["missing", "false"])
def test_slice_sizes_alone_select_no_slices(settings: dict[str, str]) -> None:
    assert limits(PT_HPU_SDPA_BC_FACTOR="512", **settings).sliding_window_slices is None


@pytest.mark.parametrize(
    ("name", "word", "field", "value"),
    [
        ("VLLM_GRAPH_PROMPT_RATIO", "0.5", "prompt_ratio", 0.5),
        ("VLLM_GRAPH_PROMPT_STRATEGY", "max_bs", "prompt_order", CaptureOrder.MAX_BS),
        ("VLLM_GRAPH_DECODE_STRATEGY", "largest_first", "decode_order", CaptureOrder.LARGEST_FIRST),
        ("--max-cudagraph-capture-size", "512", "max_graph_tokens", 512),
        ("VLLM_FULL_WARMUP", "true", "fail_on_cold_shapes", True),
    ],
)
def test_setting_of_the_warm_up_is_its_field(name: str, word: str, field: str, value: object) -> None:
    assert getattr(warmup({name: word}), field) == value


def test_entry_with_a_field_is_not_passed_to_the_engine() -> None:
    settings = {**dict.fromkeys(SETTING_FIELDS, "1"), "LOG_LEVEL_ALL": "4"}
    assert split_settings_by_field(settings).engine == {"LOG_LEVEL_ALL": "4"}


@pytest.mark.parametrize("name", SETTING_FIELDS)
def test_wrong_value_is_left_out(name: str) -> None:
    assert split_settings_by_field({name: "x"}) == ({}, {}, {}, {}, {})


def test_documented_default_is_the_default_of_the_field() -> None:
    settings = {name: knobs()[name].default for name in SETTING_FIELDS}
    assert limits(**settings) == limits()
    assert warmup(settings) == WarmupConfig()


def extreme_words(name: str) -> list[str]:
    """Return the accepted words of an enum, or the bounds of a number."""
    knob = knobs()[name]
    if knob.type in (KnobType.ENUM, KnobType.BOOL):
        return list(knob.choices)
    return [f"{bound:.0f}" for bound in knob.bounds if bound is not None]


@pytest.mark.parametrize(("name", "word"), [(name, word) for name in SETTING_FIELDS for word in extreme_words(name)])
def test_field_accepts_every_value_of_its_knob(name: str, word: str) -> None:
    found: dict[str, Any] = {**split_settings_by_field({name: word, SLICED: "1"})._asdict()}
    assert Limits(**LIMITS, **found["limits"])
    assert WarmupConfig(**found["warmup"])


def test_script_of_the_sim_engine_is_split_from_knobs() -> None:
    settings = {"LOG_LEVEL_ALL": "4", "--async-scheduling": "true", "timeScale": "0.01"}
    found = split_settings_by_field(settings, is_simulated=True)
    assert found.sim_script == {"timeScale": "0.01"}
    assert found.engine == {"LOG_LEVEL_ALL": "4", "--async-scheduling": "true"}


def test_every_knob_with_a_field_is_a_setting() -> None:
    assert {knobs()[name].home for name in SETTING_FIELDS} == {KnobHome.SETTINGS}
