"""The page has every knob once, and tells what the table tells."""

from gaudi_runtime.knobs.page import page
from gaudi_runtime.knobs.table import knobs

PAGE = page()


def test_every_knob_has_one_row() -> None:
    rows = [line.split("|")[1].strip(" `") for line in PAGE.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(knobs())


def test_row_of_a_field_names_it() -> None:
    assert "| `--block-size` | `engine.blockSize` | 128 | buckets | Tokens of a KV block. |" in PAGE


def test_row_of_a_setting_says_what_it_takes() -> None:
    assert "| `LOG_LEVEL_ALL` | a whole number from 0 to 6 | 5 |  | Log level" in PAGE


def test_row_of_a_refused_knob_says_what_to_use() -> None:
    assert "| `VLLM_DELAYED_SAMPLING` | old engine only | `--async-scheduling` |" in PAGE


def test_row_says_what_the_knob_needs() -> None:
    assert "Splits fused attention of long prompts into chunks. Only with strategy PaddingAware. |" in PAGE


def test_setting_without_a_reader_here_says_so() -> None:
    assert "Number of benchmark prompts. No effect here: for the benchmark. |" in PAGE
