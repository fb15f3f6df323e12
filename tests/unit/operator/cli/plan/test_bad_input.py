"""Documents and bucket files that every command of `gaudi-plan` refuses with one sentence."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from gaudi_runtime.buckets.bucket_plan import DropRule
from tests.support.builders import gaudi_inference, merged
from tests.unit.operator.cli.plan.asked import BARE, INFERENCE, one_sentence, plan, refusal


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"max_model_len": 0}, "max_model_len: Input should be greater than or equal to 1"),
        ({"max_num_seqs": -4}, "max_num_seqs: Input should be greater than or equal to 1"),
        ({"max_num_batched_tokens": 10**12}, "max_num_batched_tokens: Input should be less than or equal to"),
        ({"num_blocks": float("nan")}, "num_blocks: Input should be a valid integer"),
        ({"block_size": "128"}, "block_size: Input should be a valid integer"),
        ({"max_num_seqs": True}, "max_num_seqs: Input should be a valid integer"),
        ({"max_num_sequences": 4}, "max_num_sequences is not a field of this document; did you mean max_num_seqs?"),
        ({"strategy": "guess"}, "strategy: Input should be 'exponential'"),
        ({"env": {"VLLM_PROMPT_QUERY_BUCKET_STEP": 0}}, "VLLM_PROMPT_QUERY_BUCKET_STEP: Input should be"),
        ({"env": {"HOME": 1}}, "gaudi-plan: standard input: HOME "),
        ({"env": {"VLLM_PROMPT_QUERY_BUCKET_MIN": 4096}}, "bucketing.prompt.query: min 4096 "),
        ({"strategy": "file", "env": {}, "file": "(1, 128"}, "bucket file, line 1: "),
        ({"num_blocks": float("inf")}, "num_blocks: Input should be a valid integer"),
        ({"num_blocks": 0}, "num_blocks: Input should be greater than or equal to 1"),
        ({"block_size": 4096}, "bucketing.prompt.query: min 4096 "),
        ({"max_num_batched_tokens": 64}, "bucketing.prompt.query: min 128 "),
        ({"max_model_len": 64}, f"16 dropped because {DropRule.QUERY_TOO_LONG}"),
        ({"block_size": 1, "max_num_batched_tokens": 9_000_000, "max_model_len": 9_000_000}, "than 100000 values"),
        (
            {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": -4}},
            "VLLM_PROMPT_BS_BUCKET_MAX: Input should be greater than or equal to 0, got -4",
        ),
        (
            {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": 4.5}},
            "a variable must be a whole number, or a string with a whole number",
        ),
        ({"env": {"VLLM_PROMPT_BS_BUCKET_MAX": True}}, "VLLM_PROMPT_BS_BUCKET_MAX"),
        ({"env": {"VLLM_PROMPT_BS_BUCKET_MAX": None}}, "VLLM_PROMPT_BS_BUCKET_MAX"),
        ({"env": {"VLLM_PROMPT_BS_BUCKET_MAX": "four"}}, "VLLM_PROMPT_BS_BUCKET_MAX: 'four' "),
        ({"env": [4]}, "env must be a mapping, not a list"),
        ({"release": "1.22"}, "release 1.22 supports only the strategies exponential and unified, but strategy is"),
        ({"strategy": "file", "env": {}}, "the bucket file has no prompt bucket"),
        (
            {"kind": "Pod"},
            "kind 'Pod' is not supported; give a GaudiInference, a RuntimeConfig or the limits of a model",
        ),
    ],
)
def test_invalid_document_is_refused_with_one_sentence(change: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(BARE | change)


def test_unified_strategy_of_a_manifest_is_refused() -> None:
    """Only a document of limits may name this strategy, as test_outputs.py shows."""
    said = refusal(gaudi_inference(bucketing={"strategy": "unified"}))
    assert "spec.bucketing.strategy: Input should be 'Exponential', 'Linear'," in said


UNREADABLE = "the document is neither JSON nor YAML"
BAD_LINES = (
    "(1, 128",
    "(1, range(0, 10**9), 0)",
    "(1, range(1, 16000000), 0)",
    "(range(1, 9999), range(1, 9999), 0)",
    "(1, range(1, 9, 0), 0)",
    "(1, 128, -1)",
    "(1, 128, 1e3)",
    "(0, 128, 0)",
    "(1, __import__('os').abort(), 0)",
    "(1, [n for n in range(9)], 0)",
    "(" * 3000,
)
"""What is said of each, tests/unit/runtime/planning/test_bucket_file.py pins."""


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:40])
def test_invalid_bucket_file_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    buckets = tmp_path / "buckets.txt"
    buckets.write_text(f"# prompts\n(1, 128, 0)\n{line}\n")
    said = refusal(BARE | {"env": {}}, "--bucket-file", str(buckets))
    assert "bucket file, line 3: " in said
    assert repr(line[:200]) in said


def test_bucket_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    buckets = tmp_path / "buckets.txt"
    buckets.write_bytes(b"(1, 128, 0)\n\xff\n")
    assert "buckets.txt is not UTF-8 text: invalid start byte at byte 12" in refusal(
        BARE, "--bucket-file", str(buckets)
    )


def test_document_of_100_megabytes_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    result = CliRunner().invoke(app, ["buckets", "-f", str(huge)])
    assert "huge.json is larger" in one_sentence(result)


def test_folder_instead_of_a_document_is_refused(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in one_sentence(CliRunner().invoke(app, ["buckets", "-f", str(tmp_path)]))


def test_yaml_is_never_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    said = refusal(f'!!python/object/apply:os.system ["touch {mark}"]')
    assert f"{UNREADABLE}: could not determine a constructor" in said
    assert not mark.exists()


def test_yaml_with_exponential_alias_expansion_is_refused() -> None:
    names = "abcdefghij"
    lines = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise(names)]
    said = refusal("\n".join(["a: &a [ha, ha]", *lines, "max_model_len: *j"]))
    assert "max_model_len: Input should be a valid integer" in said


def test_number_of_5000_digits_is_refused() -> None:
    assert f"{UNREADABLE}: Exceeds the limit" in refusal('{"max_model_len": ' + "9" * 5000 + "}")


LONG = "9" * 4000


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": LONG}},
        {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": int(LONG)}},
        {"env": {"VLLM_PROMPT_BS_BUCKET_MAX": f"{LONG}{LONG}"}},
        {"env": {f"VLLM_{LONG}": 1}},
        {LONG: 1},
        {"kind": LONG},
    ],
    ids=["text", "number", "longer text", "name of a variable", "key", "kind"],
)
def test_refusal_of_long_input_quotes_only_its_beginning(change: dict[str, Any]) -> None:
    said = refusal(BARE | change)
    assert "99.." in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("key", "shown"), [("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("a\u2028b", "a\\u2028b"), ("é", "é")]
)
def test_control_characters_in_names_are_escaped(key: str, shown: str) -> None:
    assert f"input: {shown} is not a field of this document; remove it" in refusal(BARE | {key: 1})
    assert f"input: {shown} " in refusal(BARE | {"env": {key: 1}})


def test_list_of_documents_in_a_message_ends_after_ten() -> None:
    items = [{"kind": "GaudiInference", "metadata": {"name": f"model-{at}"}} for at in range(300)]
    said = refusal({"kind": "List", "items": items})
    assert "300 documents" in said
    assert "(model-0, " in said
    assert "model-9 and 290 more). " in said


def test_missing_limit_is_named() -> None:
    assert "standard input: max_model_len is missing." in refusal({"max_num_seqs": 4, "max_num_batched_tokens": 128})


@pytest.mark.parametrize("text", ["{", "a: [1", "{" * 100_000, "[" * 100_000])
def test_unparsable_text_is_refused(text: str) -> None:
    assert UNREADABLE in refusal(text)


@pytest.mark.parametrize("text", ["[1, 2]", "just words"])
def test_document_that_is_not_a_mapping_is_refused(text: str) -> None:
    assert "the document is not a mapping" in refusal(text)


def test_error_names_the_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.touch()
    said = one_sentence(CliRunner().invoke(app, ["forecast", "-f", str(empty)]))
    assert f"{empty}: the document is empty; give a GaudiInference, a RuntimeConfig or the limits of a model." in said


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    return merged(INFERENCE, {"spec": sections})


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (changed(model={"maxModelLen": None}), "spec.model.maxModelLen is missing."),
        (
            changed(engine={"name": "vllm", "settings": {"--enable-auto-tool-choice": True}}),
            'spec.engine.settings.--enable-auto-tool-choice must be text, not true: write "true" with quotes.',
        ),
        (
            changed(engine={"maxNumSeqs": 0}),
            "spec.engine.maxNumSeqs: Input should be greater than or equal to 1, got 0",
        ),
        (changed(engine={"executionMode": "Graphs"}), ", got Graphs."),
    ],
)
def test_error_names_field_value_and_remedy(document: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(document)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            ("1", "99999999", "0"),
            "a prompt of 99999999 tokens is longer than maxModelLen (1024), so the server refuses",
        ),
        (("3", "412", "0"), None),
    ],
)
def test_find_reports_batches_beyond_the_server_limits(wanted: tuple[str, ...], sentence: str | None) -> None:
    document = BARE | {"max_model_len": 1024, "env": {}}
    if sentence:
        assert sentence in refusal(document, *wanted, command="find")
    else:
        shown = plan(document, *wanted, command="find").stdout
        assert "no bucket: a step takes at most 1 prompt (maxNumPrefillSeqs), so no batch has 3" in shown


def test_binary_input_is_refused() -> None:
    assert "standard input is not UTF-8 text" in refusal(b"\xff\xfe")


def test_document_of_two_megabytes_is_refused() -> None:
    assert "standard input is larger than 1048576 bytes" in refusal("#" * 2_000_000)


def test_bucket_file_of_100_megabytes_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    assert "huge.txt is larger than 65536 " in refusal(BARE, "--bucket-file", str(huge))


def test_missing_file_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["buckets", "-f", str(tmp_path / "absent.json")])
    assert result.exit_code == 2
    assert "absent.json cannot be read: No such file or directory" in result.stderr
