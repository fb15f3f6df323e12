"""The page names every knob that users can set, and what replaces the others."""

import re

from gaudi_runtime.knobs.table import KnobHome, knobs
from scripts.knobs_page import render_page

PAGE = render_page()


def test_page_names_every_knob_with_a_place_or_replacement() -> None:
    settable = {name for name, knob in knobs().items() if knob.home is KnobHome.SETTINGS or knob.use}
    named = set(re.findall(r"`([^`]+)`", PAGE.partition("## Set in engine.settings")[2]))
    assert settable - named == set()
    assert named & (set(knobs()) - settable) == set()


def test_knobs_of_a_field_are_in_one_row() -> None:
    assert "| `bucketing.strategy` | `VLLM_BUCKETING_STRATEGY`" in PAGE


def test_row_of_a_setting_lists_its_values_and_default() -> None:
    assert "| `LOG_LEVEL_ALL` | integer 0..6 (5) | Log level" in PAGE


def test_row_names_the_effect_on_the_plan() -> None:
    assert "| boolean (true) | Decode attention reads one contiguous range of KV blocks. Plan: buckets. |" in PAGE


def test_refused_knob_has_its_replacement() -> None:
    assert re.search(r"^\| `--async-scheduling` \| .*`VLLM_DELAYED_SAMPLING`", PAGE, re.MULTILINE)


def test_row_names_the_strategy_that_the_knob_requires() -> None:
    assert "Splits fused attention of long prompts into chunks. Only with strategy PaddingAware. |" in PAGE
