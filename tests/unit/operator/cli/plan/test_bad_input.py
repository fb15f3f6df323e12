from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from tests.unit.operator.cli.plan.asked import BARE, refusal


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"max_model_len": 0}, "max_model_len: Input should be greater than or equal to 1"),
        ({"max_num_seqs": -4}, "max_num_seqs: Input should be greater than or equal to 1"),
        ({"max_num_batched_tokens": 10**12}, "max_num_batched_tokens: Input should be less than or equal to"),
        ({"num_blocks": float("nan")}, "num_blocks: Input should be a valid integer"),
        ({"block_size": "128"}, "block_size: Input should be a valid integer"),
        ({"max_num_seqs": True}, "max_num_seqs: Input should be a valid integer"),
        ({"max_num_sequences": 4}, "max_num_sequences: Extra inputs are not permitted"),
        ({"strategy": "guess"}, "strategy: Input should be 'exponential'"),
        ({"strategy": "optimal"}, "bucketing.strategy: optimal makes no prompt and decode buckets"),
        ({"env": {"VLLM_PROMPT_QUERY_BUCKET_STEP": 0}}, "bucket variable for prompt.query.step"),
        ({"env": {"HOME": 1}}, "HOME is not a bucket variable"),
        ({"env": {"VLLM_PROMPT_QUERY_BUCKET_MIN": 4096}}, "bucketing.prompt.query: min 4096 is above max 2048"),
        ({"strategy": "file", "env": {}, "file": "(1, 128"}, "bucket file, line 1: not a tuple of three elements"),
        ({"kind": "Pod"}, "kind 'Pod' is not read; give a GaudiInference, a RuntimeConfig or the limits of a model"),
    ],
)
def test_bad_document_is_refused_with_one_sentence(change: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(BARE | change)


def test_missing_limit_is_named() -> None:
    assert "max_model_len: Field required" in refusal({"max_num_seqs": 4, "max_num_batched_tokens": 128})


@pytest.mark.parametrize("text", ["{", "a: [1", "{" * 100_000, "[" * 100_000])
def test_text_without_structure_is_refused(text: str) -> None:
    assert "the document is neither JSON nor YAML" in refusal(text)


@pytest.mark.parametrize("text", ["", "[1, 2]", "just words"])
def test_document_that_is_no_mapping_is_refused(text: str) -> None:
    assert "the document is not a mapping" in refusal(text)


def test_binary_input_is_refused() -> None:
    assert "standard input is not UTF-8 text" in refusal(b"\xff\xfe")


def test_document_of_two_megabytes_is_refused() -> None:
    assert "standard input is larger than 1048576 bytes" in refusal("#" * 2_000_000)


def test_bucket_file_of_100_megabytes_is_refused_unread(tmp_path: Path) -> None:
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    assert "huge.txt is larger than 65536 bytes" in refusal(BARE, "--bucket-file", str(huge))


def test_missing_file_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["buckets", "-f", str(tmp_path / "absent.json")])
    assert result.exit_code == 2
    assert "absent.json cannot be read: No such file or directory" in result.stderr
