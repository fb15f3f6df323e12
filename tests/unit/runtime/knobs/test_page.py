"""The page lists every knob once and agrees with the table."""

from gaudi_runtime.knobs.page import render_page
from gaudi_runtime.knobs.table import knobs

PAGE = render_page()


def test_every_knob_has_one_row() -> None:
    rows = [line.split("|")[1].strip(" `") for line in PAGE.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(knobs())


def test_row_of_a_field_names_it() -> None:
    assert "| `--block-size` | `engine.blockSize` | 128 | buckets | Tokens of a KV block. |" in PAGE


def test_row_of_a_setting_lists_its_values() -> None:
    assert "| `LOG_LEVEL_ALL` | a whole number from 0 to 6 | 5 |  | Log level" in PAGE


def test_row_of_a_refused_knob_names_its_replacement() -> None:
    assert "| `VLLM_DELAYED_SAMPLING` | old engine only | `--async-scheduling` |" in PAGE


def test_row_names_the_strategy_that_the_knob_requires() -> None:
    assert "Splits fused attention of long prompts into chunks. Only with strategy PaddingAware. |" in PAGE


def test_row_of_a_knob_without_effect_states_it() -> None:
    assert "| `CON_REQ` | no effect here | nothing | " in PAGE
