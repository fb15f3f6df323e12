"""Output formats of `gaudi-plan`: YAML, CSV, tables, pictures and bucket files."""

import csv
import io
import json

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from gaudi_operator.cli.plan.output import YAML_AT_ONCE
from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import INFERENCE, LINEAR, answer, plan

SMALL = merged(LINEAR, {"limits": {"maxModelLen": 512, "maxNumBatchedTokens": 1024}})


def test_yaml_equals_json() -> None:
    assert yaml.safe_load(plan(SMALL, "-o", "yaml").stdout) == answer(SMALL)


ONE_BY_ONE = {"batchSize": {"min": 1, "step": 1, "max": 1}, "blocks": {"min": 1, "step": 1, "max": 5096}}
LARGE = merged(SMALL, {"bucketing": {"strategy": "linear", "decode": ONE_BY_ONE}})
BLOCKS = ("--kv-blocks", "6000")


def test_yaml_of_many_buckets_is_one_document() -> None:
    assert len(answer(LARGE, *BLOCKS)["decode"]) > YAML_AT_ONCE
    assert yaml.safe_load(plan(LARGE, "-o", "yaml", *BLOCKS).stdout) == answer(LARGE, *BLOCKS)


def test_table_of_many_buckets_is_truncated_and_refers_to_csv() -> None:
    shown = plan(LARGE, *BLOCKS).stdout
    assert "5097 decode buckets" in shown
    assert "the first 5000; -o csv lists all" in shown


def test_csv_has_every_bucket() -> None:
    header, *rows = csv.reader(io.StringIO(plan(SMALL, "-o", "csv").stdout))
    assert header == ["phase", "batch_size", "query_len", "num_blocks"]
    printed = answer(SMALL)
    assert rows == [[phase, *map(str, bucket)] for phase in ("prompt", "decode") for bucket in printed[phase]]


def test_unsupported_format_is_refused_with_the_supported_ones() -> None:
    result = plan(SMALL, "-o", "png")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'png' is not one of 'table', 'json', 'yaml', 'csv', 'svg'" in result.stderr


def test_find_has_no_svg_output() -> None:
    said = CliRunner().invoke(app, ["find", "-f", "-", "-o", "svg", "1", "1", "0"], input=json.dumps(SMALL))
    assert said.exit_code == 2
    assert said.stderr == "gaudi-plan: this command has no svg output. Choose table, json, yaml or csv.\n"


def test_find_as_csv_has_wanted_found_and_fallback_lines() -> None:
    lines = plan(SMALL, "-o", "csv", "1", "100", "0", command="find").stdout.splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["prompt", "wanted"],
        ["prompt", "found"],
        ["prompt", "fallback"],
    ]


def test_batches_without_a_bucket_cause_a_warning() -> None:
    document = merged(LINEAR, {"bucketing": {"strategy": "file", "file": "(1, 128, 0)\n(1, 1, 64)"}})
    assert any("prompt shapes" in warning and "no bucket" in warning for warning in answer(document)["warnings"])


@settings(max_examples=30)
@given(
    st.sampled_from(["exponential", "linear", "paddingAware"]),
    st.integers(1, 6000),
    st.fixed_dictionaries(
        {
            "maxModelLen": st.integers(128, 20_000),
            "maxNumSeqs": st.integers(8, 64),
            "maxNumPrefillSeqs": st.integers(1, 8),
            "maxNumBatchedTokens": st.integers(2048, 8192),
            "contiguousPagedAttention": st.booleans(),
            "prefixCaching": st.booleans(),
        }
    ),
)
def test_printed_plan_as_a_bucket_file_is_the_same_plan(strategy: str, blocks: int, limits: dict[str, object]) -> None:
    document = LINEAR | {"limits": limits, "bucketing": {"strategy": strategy}}
    result = plan(document, "-o", "json", "--kv-blocks", str(blocks))
    assume(result.exit_code == 0)
    printed = json.loads(result.stdout)
    buckets = printed["prompt"] + printed["decode"]
    assume(len(buckets) <= 1000)  # a bucket file has at most 1,000 lines
    text = "\n".join(str(tuple(bucket)) for bucket in buckets)
    again = answer(document | {"bucketing": {"strategy": "file", "file": text}}, "--kv-blocks", str(blocks))
    assert (again["prompt"], again["decode"]) == (printed["prompt"], printed["decode"])


def test_equal_documents_have_equal_answers() -> None:
    assert answer(INFERENCE) == answer(json.loads(json.dumps(INFERENCE)))
