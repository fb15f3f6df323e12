"""`gaudi-plan buckets` and `find`: the planned buckets, assumptions and warnings, and the bucket of a batch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gaudi_runtime.buckets.bucket_plan import PlanDropRule
from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import INFERENCE, LINEAR, RUNTIME_CONFIG, answer, plan


def script(document: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("gaudi-plan"), "buckets", "-f", "-", "-o", "json"]
    return subprocess.run(command, input=document, capture_output=True, text=True, check=False)


def test_console_script_prints_the_plan_from_standard_input() -> None:
    done = script(json.dumps(LINEAR))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == answer(LINEAR)


def test_console_script_refuses_an_invalid_document_with_one_sentence() -> None:
    done = script(json.dumps(merged(LINEAR, {"limits": {"maxModelLen": 0}})))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "gaudi-plan: standard input: limits.maxModelLen: Input should be greater than or equal to 1, got 0.\n"
    )


def test_planning_a_runtime_config_imports_no_heavy_modules() -> None:
    code = (
        "import sys; from gaudi_operator.cli.plan.app import app\n"
        "try: app(['buckets', '-f', '-', '-o', 'json'])\n"
        "except SystemExit: print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(LINEAR), capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "gaudi_runtime.planning.planner" in loaded
    heavy = {"rich", "yaml", "kubernetes", "torch", "numpy", "gaudi_operator.api", "gaudi_runtime.forecast"}
    others = {f"gaudi_operator.cli.plan.{topic}" for topic in ("comparison", "forecast", "learn")}
    assert loaded & (heavy | others) == set()


def test_runtime_config_is_planned_with_assumed_blocks_and_a_warning() -> None:
    printed = answer(RUNTIME_CONFIG)
    assert printed["prompt"] == [[1, 128, 0], [1, 256, 0]]
    assert printed["warnings"] == [
        "4 KV blocks are assumed, enough for maxNumSeqs full sequences. The number of the device is known after its "
        "memory split. Set it with --kv-blocks"
    ]


def test_given_kv_blocks_need_no_warning() -> None:
    assert answer(RUNTIME_CONFIG, "--kv-blocks", "64")["warnings"] == []


LONG: dict[str, Any] = {
    **INFERENCE,
    "spec": {
        "model": {"source": {"persistentVolumeClaim": {"claimName": "models"}}, "maxModelLen": 131072},
        "accelerator": {"generation": "gaudi3"},
        "bucketing": {"strategy": "Exponential"},
        "engine": {
            "maxNumSeqs": 2,
            "maxNumBatchedTokens": 8192,
            "prefixCaching": True,
            "settings": {"VLLM_CONTIGUOUS_PA": "false"},
        },
    },
}
NAN = "prompt bucket (1, 8192, 978) has an attention bias of 2185232384 bytes"


def attention_warnings(document: object) -> list[str]:
    return [each for each in answer(document)["warnings"] if "attention bias" in each]


def test_bucket_computed_as_nan_is_named_in_the_warnings() -> None:
    (warning,) = attention_warnings(LONG)
    assert warning.startswith(NAN)


def test_bucket_with_tiled_queries_causes_no_warning() -> None:
    tiled = merged(LONG, {"spec": {"engine": {"settings": {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "1"}}}})
    assert attention_warnings(tiled) == []


def test_forecast_refuses_a_bucket_computed_as_nan() -> None:
    found = answer(LONG, command="forecast")
    assert found["verdict"] == "REFUSED"
    assert found["problems"][0]["message"].startswith(f"spec.bucketing: {NAN}")


def test_without_prefix_caching_no_prompt_has_context() -> None:
    assert {bucket[2] for bucket in answer(LINEAR)["prompt"]} == {0}


def test_ignored_setting_is_named_in_the_warnings() -> None:
    ignored = merged(LINEAR, {"bucketing": {"strategy": "exponential"}})
    (warning,) = answer(ignored, "--kv-blocks", "1519")["warnings"]
    assert warning.startswith("bucketing.decode.blocks.step is ignored")


def test_bucket_file_replaces_the_strategy(tmp_path: Path) -> None:
    buckets = tmp_path / "buckets.txt"
    buckets.write_text("(1, [128, 256], 0)\n([1, 2], 1, 64)\n")
    printed = answer(LINEAR, "--bucket-file", str(buckets))
    assert printed["prompt"] == [[1, 128, 0], [1, 256, 0]]
    assert printed["decode"] == [[1, 1, 64], [2, 1, 64]]


def test_table_shows_bucket_counts_and_omitted_candidates() -> None:
    shown = plan(merged(LINEAR, {"limits": {"maxModelLen": 1024}})).stdout
    assert "8 prompt buckets" in shown
    assert f"8 prompt candidates left out: {PlanDropRule.QUERY_TOO_LONG}" in shown


FIND = ("--kv-blocks", "1519", "--phase", "decode")


def test_find_prints_bucket_and_fallback() -> None:
    assert answer(LINEAR, *FIND, "1", "1", "50", command="find") == {
        "phase": "decode",
        "wanted": [1, 1, 50],
        "found": [1, 1, 64],
        "fallback": [1, 1, 128],
    }


def test_find_prints_null_if_no_bucket_matches() -> None:
    assert answer(LINEAR, *FIND, "5", "1", "50", command="find")["found"] is None


def test_find_as_text_shows_the_shape_that_would_be_compiled() -> None:
    shown = plan(LINEAR, *FIND, "4", "1", "9999", command="find").stdout
    assert shown.startswith("decode (4, 1, 9999) -> no bucket, so the batch would be compiled as (4, 1, ")


def test_find_reports_a_batch_above_max_num_seqs() -> None:
    shown = plan(LINEAR, *FIND, "5", "1", "33", command="find").stdout
    assert "no bucket: at most 4 sequences run at once (maxNumSeqs), so no batch has 5\n" in shown


def test_example_in_the_docs_has_the_documented_plan() -> None:
    docs = (Path(__file__).parents[5] / "docs" / "internals" / "planning.md").read_text()
    example = json.loads(docs.split("```json\n", 1)[1].split("\n```", 1)[0])
    changes = {
        "as it stands": {},
        "linear": {"bucketing": {"strategy": "linear"}},
        "no context": {"limits": {"prefixCaching": False}},
    }
    plans = {name: answer(merged(example, change), "--kv-blocks", "1519") for name, change in changes.items()}
    counts = {name: (len(printed["prompt"]), len(printed["decode"])) for name, printed in plans.items()}
    assert counts == {"as it stands": (54, 27), "linear": (256, 57), "no context": (9, 27)}
    assert plan(example, *FIND, "3", "1", "33", command="find").stdout in docs
