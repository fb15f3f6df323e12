"""Documents and bucket files that every command of `gaudi-plan` refuses with one sentence."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from gaudi_runtime.buckets.bucket_plan import PlanDropRule
from tests.support.builders import gaudi_inference, merged
from tests.unit.operator.cli.plan.asked import INFERENCE, LINEAR, one_sentence, plan, refusal

INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"limits": {"maxModelLen": 0}}, "limits.maxModelLen: Input should be greater than or equal to 1"),
    "negative": ({"limits": {"maxNumSeqs": -4}}, "limits.maxNumSeqs: Input should be greater than or equal to 1"),
    "huge": ({"limits": {"maxNumBatchedTokens": 10**12}}, "limits.maxNumBatchedTokens: Input should be less than or"),
    "not a number": ({"limits": {"maxNumSeqs": float("nan")}}, "limits.maxNumSeqs: Input should be a finite number"),
    "infinite": ({"limits": {"maxNumSeqs": float("inf")}}, "limits.maxNumSeqs: Input should be a finite number"),
    "unknown": ({"limits": {"maxNumSequences": 4}}, "limits.maxNumSequences is not a field of this document"),
    "missing": ({"limits": {"maxModelLen": None}}, "limits.maxModelLen is missing"),
    "strategy": ({"bucketing": {"strategy": "guess"}}, "bucketing.strategy: Input should be 'exponential'"),
    "step": ({"bucketing": {"prompt": {"query": {"step": 0}}}}, "bucketing.prompt.query.step: Input should be"),
    "range": ({"bucketing": {"prompt": {"query": {"min": 4096}}}}, "bucketing.prompt.query: min 4096 "),
    "file": ({"bucketing": {"strategy": "file", "file": "(1, 128"}}, "bucket file, line 1: "),
    "no file": ({"bucketing": {"strategy": "file"}}, "the bucket file has no prompt bucket"),
    "large block": ({"limits": {"blockSize": 4096}}, "bucketing.prompt.query: min 4096 "),
    "few tokens": ({"limits": {"maxNumBatchedTokens": 64}}, "bucketing.prompt.query: min 128 "),
    "short model": ({"limits": {"maxModelLen": 64}}, f"16 dropped because {PlanDropRule.QUERY_TOO_LONG}"),
    "many values": (
        {"limits": {"blockSize": 1, "maxNumBatchedTokens": 9_000_000, "maxModelLen": 9_000_000}},
        "than 10000 values",
    ),
    "list": ({"limits": [4]}, "limits must be a mapping, not a list"),
    "kind": ({"kind": "Pod"}, "kind 'Pod' is not supported; give a GaudiInference or a RuntimeConfig"),
}
"""Changes of LINEAR with the sentences that refuse them."""


def test_invalid_document_is_refused_with_one_sentence() -> None:
    said = {name: plan(merged(LINEAR, change)).stderr for name, (change, _) in INVALID.items()}
    assert {name: text for name, text in said.items() if INVALID[name][1] not in text} == {}


def test_unified_strategy_of_a_manifest_is_refused() -> None:
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
    said = refusal(LINEAR, "--bucket-file", str(buckets))
    assert "bucket file, line 3: " in said
    assert repr(line[:200]) in said


def test_bucket_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    buckets = tmp_path / "buckets.txt"
    buckets.write_bytes(b"(1, 128, 0)\n\xff\n")
    assert "buckets.txt is not UTF-8 text: invalid start byte at byte 12" in refusal(
        LINEAR, "--bucket-file", str(buckets)
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
    said = refusal("\n".join(["a: &a [ha, ha]", *lines, "limits: *j"]))
    assert "limits must be a mapping, not a list" in said


def test_number_of_5000_digits_is_refused() -> None:
    assert f"{UNREADABLE}: Exceeds the limit" in refusal('{"max_model_len": ' + "9" * 5000 + "}")


LONG = "9" * 4000
LONG_INPUTS: dict[str, dict[str, Any]] = {
    "text": {"limits": {"maxNumSeqs": LONG}},
    "key": {LONG: 1},
    "key below": {"limits": {LONG: 1}},
    "kind": {"kind": LONG},
}


def test_refusal_of_long_input_is_short() -> None:
    said = {name: refusal(merged(LINEAR, change)) for name, change in LONG_INPUTS.items()}
    said["field of a resource"] = refusal(merged(INFERENCE, {"spec": {LONG: 1}}))
    assert {name: text for name, text in said.items() if len(text) >= 300} == {}


@pytest.mark.parametrize(
    ("key", "shown"), [("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("a\u2028b", "a\\u2028b"), ("é", "é")]
)
def test_control_characters_in_names_are_escaped(key: str, shown: str) -> None:
    assert f"input: {shown} is not a field of this document; remove it" in refusal(LINEAR | {key: 1})


def test_list_of_documents_in_a_message_ends_after_ten() -> None:
    items = [{"kind": "GaudiInference", "metadata": {"name": f"model-{at}"}} for at in range(300)]
    said = refusal({"kind": "List", "items": items})
    assert "300 documents" in said
    assert "(model-0, " in said
    assert "model-9 and 290 more). " in said


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
    assert f"{empty}: the document is empty; give a GaudiInference or a RuntimeConfig." in said


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
    document = merged(LINEAR, {"limits": {"maxModelLen": 1024}})
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
    assert "huge.txt is larger than 65536 " in refusal(LINEAR, "--bucket-file", str(huge))


def test_missing_file_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["buckets", "-f", str(tmp_path / "absent.json")])
    assert result.exit_code == 2
    assert "absent.json cannot be read: No such file or directory" in result.stderr
