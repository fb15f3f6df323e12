"""`gaudi-plan forecast`: the verdict whether a deployment fits, its reasons, remedies and figures."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from gaudi_operator.cli.plan.verdict import Verdict
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.planning import planner
from gaudi_runtime.planning.planner import plan_of_ranges
from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import BARE, INFERENCE, RUNTIME_CONFIG, answer, plan, refusal

LLAMA = "meta-llama/Llama-3.1-8B"
SEED: dict[str, Any] = {
    "version": "v1",
    "model": {"path": "/models", "servedNames": [LLAMA]},
    "engine": {"name": "vllm", "device": "hpu", "executionMode": "hpuGraphs", "deviceMemoryUtilization": 0.5},
    "limits": {
        "maxModelLen": 2048,
        "maxNumSeqs": 4,
        "maxNumPrefillSeqs": 4,
        "maxNumBatchedTokens": 4096,
        "blockSize": 1,
        "contiguousPagedAttention": False,
    },
    "bucketing": {
        "strategy": "linear",
        "prompt": {"batchSize": {"min": 1, "step": 32, "max": 4}, "query": {"min": 128, "step": 128, "max": 1024}},
        "decode": {"batchSize": {"min": 1, "step": 128, "max": 4}, "blocks": {"min": 128, "step": 128, "max": 2048}},
    },
    "warmup": {"graphMemoryShare": 0.4, "promptRatio": 0.3},
}
"""The settings of log 000 as a RuntimeConfig."""


def asked(document: object, *arguments: str) -> Any:
    return answer(document, *arguments, command="forecast")


def ended(document: object, *arguments: str) -> tuple[str, int]:
    """Return the first words of the output, and the exit code."""
    result = plan(document, *arguments, command="forecast")
    return result.stdout.partition(":")[0], result.exit_code


def test_forecast_makes_each_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    def counted(policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks, warnings: Sequence[str] = ()) -> BucketPlan:
        made.append((policy, limits, blocks))
        return plan_of_ranges(policy, limits, blocks, warnings)

    monkeypatch.setattr(planner, "plan_of_ranges", counted)
    # Use a length that no other test uses, because this process keeps the plans of other tests.
    asked(merged(INFERENCE, {"spec": {"model": {"maxModelLen": 2816}}}))
    assert made
    assert len(made) == len(set(made))


def test_seed_000_is_forecast_from_its_settings_alone() -> None:
    found = asked(SEED)
    assert (found["card"], found["model"]) == ("gaudi2", LLAMA)
    assert (found["prompt"]["captured"], found["prompt"]["planned"], found["prompt"]["percent"]) == (15, 24, 62)
    assert found["decode"]["percent"] == 100


def test_every_figure_has_a_source_and_how_sure_it_is() -> None:
    found = asked(SEED)
    figures = [*found["memory"].values(), found["kvBlocks"], found["warmupSeconds"], found["prompt"]["graphBytes"]]
    assert all(figure["source"] and figure["confidence"] for figure in figures)


def test_table_says_it_is_an_estimate_and_names_sources() -> None:
    text = plan(SEED, "--sources", command="forecast").stdout
    assert text.startswith(f"UNKNOWN: {LLAMA} on card gaudi2 (an estimate)\n")
    assert "15 of 24 graphs captured (62 %), 24 by the most optimistic source" in text
    assert "logged as total device memory in log 000" in text


def test_sources_are_shown_to_those_who_ask() -> None:
    assert "log 000" not in plan(SEED, command="forecast").stdout


def test_verdict_and_remedy_come_before_the_table() -> None:
    before, _, _ = plan(SEED, command="forecast").stdout.partition("┏")
    before = before.replace("\n", " ")
    verdict, _, why = before.partition(" (an estimate) ")
    assert verdict.startswith("UNKNOWN: ")
    assert why.startswith("why: About 15 of 24 prompt graphs")
    assert "remedy: lower readiness.minCapturedPromptPercent to 62 or: " in before
    assert (
        "or: set readiness.onShortfall to ServeAndWarn: a pod then serves with the graphs that fit warning: " in before
    )


def test_graphs_that_only_a_pessimist_misses_are_unknown() -> None:
    assert ended(SEED) == ("UNKNOWN", 5)


def test_remedy_is_given_with_what_does_not_fit() -> None:
    assert asked(SEED)["remedies"][0] == "lower readiness.minCapturedPromptPercent to 62"


def test_model_that_does_not_fit_is_advised_more_cards() -> None:
    found = asked(SEED, "--model", "meta-llama/Llama-3.1-70B")
    assert found["problems"][0]["reason"] == "WeightsTooLarge"
    assert found["remedies"] == ["raise parallelism.tensor to 2"]
    assert ended(SEED, "--model", "meta-llama/Llama-3.1-70B") == ("DOES NOT FIT", 3)


def test_bare_limits_are_forecast_for_a_named_model_and_card() -> None:
    found = asked(BARE, "--model", "qwen/qwen3-8b", "--card", "gaudi3")
    assert (found["card"], found["model"]) == ("gaudi3", "Qwen/Qwen3-8B")
    assert found["kvBlocks"] == {"value": 1519, "confidence": "exact", "source": "given"}


def test_without_a_model_it_is_unknown_whether_it_fits() -> None:
    found = asked(BARE)
    assert (found["verdict"], found["memory"], found["prompt"]["captured"]) == ("UNKNOWN", None, None)
    assert found["why"][0] == "The model's shape is unknown, so the memory that it needs is unknown too."
    (remedy,) = found["remedies"]
    assert remedy.startswith("name the model: --model with a public repository or the path of its config.json")


def test_manifest_names_its_own_card() -> None:
    assert asked(INFERENCE)["card"] == "gaudi2"


def test_hugging_face_source_names_its_own_model() -> None:
    model = {"source": {"huggingFace": {"repo": LLAMA}}, "maxModelLen": 4096}
    found = asked({**INFERENCE, "spec": {**INFERENCE["spec"], "model": model}})  # type: ignore[dict-item]
    assert found["model"] == LLAMA


def test_runtime_config_on_a_cpu_has_no_described_card() -> None:
    found = asked(RUNTIME_CONFIG)
    assert (found["card"], found["warmupSeconds"]) == ("none", None)


def test_simulated_card_is_the_card_of_the_forecast() -> None:
    config = {**RUNTIME_CONFIG, "engine": {"name": "sim", "simScript": {"card": "gaudi3"}}}
    assert asked(config)["card"] == "gaudi3"


@pytest.mark.parametrize("as_folder", [True, False])
def test_model_is_read_from_a_checkpoint(tmp_path: Path, as_folder: bool) -> None:
    config = {
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = asked(BARE, "--model", str(tmp_path if as_folder else tmp_path / "config.json"))
    assert found["memory"]["weights"]["value"] == 2 * 494_032_768


def test_csv_has_a_row_per_figure() -> None:
    lines = plan(SEED, "-o", "csv", command="forecast").stdout.splitlines()
    assert lines[0] == "figure,unit,value,low,high,confidence,source"
    assert any(line.startswith("warm-up,seconds,50.0,") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--card", "h100"), "card 'h100' "),
        (("--model", "unknown/model"), "model 'unknown/model' is neither a known repository nor a file"),
    ],
)
def test_unknown_name_is_refused_in_a_sentence(arguments: tuple[str, str], words: str) -> None:
    assert words in refusal(BARE, *arguments, command="forecast")


def test_checkpoint_of_an_unknown_family_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    said = refusal(BARE, "--model", str(tmp_path), command="forecast")
    assert "model_type 'bert'" in said
    assert "without --model the buckets are still planned, and the first pod measures memory" in said


def test_other_release_is_refused_in_a_sentence() -> None:
    older = {key: value for key, value in BARE.items() if key not in ("strategy", "env")} | {"release": "1.22"}
    assert "release 1.22 is planned, not forecast" in refusal(older, command="forecast")


def test_what_the_operator_refuses_is_refused() -> None:
    spec = INFERENCE["spec"]
    several = {
        **INFERENCE,
        "spec": {
            **spec,
            "engine": {**spec["engine"], "name": "sim"},
            "model": {**spec["model"], "quantization": {"method": "fp8"}},
        },
    }
    found = asked(several)
    assert found["problems"][0]["reason"] == "NotBuilt"
    assert ended(several) == ("REFUSED", 4)
    assert "why: spec.model.quantization is not implemented" in plan(several, command="forecast").stdout


CARD: dict[str, Any] = {
    **INFERENCE,
    "spec": {
        "model": {
            "source": {"huggingFace": {"repo": "meta-llama/Llama-3.1-8B-Instruct"}},
            "maxModelLen": 8192,
            "dtype": "bfloat16",
        },
        "accelerator": {"generation": "gaudi3"},
        "engine": {"name": "vllm", "chunkedPrefill": False},
    },
}
"""A first manifest for a card: everything else is default, so its mode is TorchCompile."""
OPENS = "The gate opens when it has captured 100 % of the prompt graphs and 100 % of the decode graphs."


def card(**changes: Any) -> dict[str, Any]:
    return {**CARD, "spec": merged(CARD["spec"], changes)}


def test_default_mode_is_not_judged_by_figures_of_hpu_graphs() -> None:
    found = asked(CARD)
    assert found["verdict"] == "UNKNOWN"
    assert OPENS in found["why"][0]
    for phase in ("prompt", "decode"):
        assert (found[phase]["captured"], found[phase]["graphBytes"], found[phase]["allGraphBytes"]) == (None,) * 3
    assert found["warmupSeconds"]["high"] > found["warmupSeconds"]["value"]
    assert "graphs captured" not in plan(CARD, command="forecast").stdout


@pytest.mark.parametrize("mode", ["HpuGraphs", "TorchCompile"])
def test_remedy_of_an_unknown_gate_is_enough(mode: str) -> None:
    remedy = "set readiness.onShortfall to ServeAndWarn: a pod then serves with the graphs that fit"
    assert ended(card(engine={"executionMode": mode})) == ("UNKNOWN", 5)
    assert remedy in asked(card(engine={"executionMode": mode}))["remedies"]
    remedied = card(engine={"executionMode": mode}, readiness={"onShortfall": "ServeAndWarn"})
    assert ended(remedied) == ("FITS WITH WARNINGS", 0)


def test_lower_threshold_is_a_remedy_however_low() -> None:
    found = asked(card(engine={"executionMode": "HpuGraphs"}))
    assert found["prompt"]["percent"] < 50
    threshold = f"lower readiness.minCapturedPromptPercent to {found['prompt']['percent']}"
    assert threshold in found["remedies"]


def test_deployment_without_thresholds_fits() -> None:
    none = {"minCapturedPromptPercent": 0, "minCapturedDecodePercent": 0}
    assert ended(card(readiness=none)) == ("FITS", 0)


def test_threshold_0_is_a_remedy_of_an_unknown_gate() -> None:
    remedy = "lower readiness.minCapturedPromptPercent and readiness.minCapturedDecodePercent to 0: "
    assert asked(CARD)["remedies"][1].startswith(remedy)


def test_heads_that_cannot_be_divided_are_refused() -> None:
    uneven = card(parallelism={"tensor": 3})
    assert ended(uneven) == ("REFUSED", 4)
    assert "32 attention heads cannot be divided over parallelism.tensor = 3" in asked(uneven)["why"][0]


def test_shapes_without_a_bucket_are_a_warning() -> None:
    gaps = card(
        bucketing={"strategy": "File", "file": "(1, 4096, 0)\n(128, 1, 8192)", "allowGaps": True},
        readiness={"minCapturedPromptPercent": 0, "minCapturedDecodePercent": 0},
    )
    found = asked(gaps)
    assert found["coverage"]["prompt"]["withoutBucket"] > 0
    assert found["verdict"] == "FITS WITH WARNINGS"
    assert any("of the prompt shapes that the limits admit have no bucket" in said for said in found["warnings"])


def test_qwen_vl_on_one_gaudi_3_needs_no_network() -> None:
    model = {"source": {"huggingFace": {"repo": "Qwen/Qwen2.5-VL-7B-Instruct"}}, "itemsPerPrompt": {"image": 1}}
    found = asked(card(model=model))
    assert found["model"] == "Qwen/Qwen2.5-VL-7B-Instruct"
    assert found["problems"] == []
    assert not any("tensor parallel" in said for said in found["warnings"])
    assert found["memory"]["weights"]["value"] == 2 * 8_292_166_656


def test_help_lists_every_verdict_with_its_exit_code() -> None:
    page = CliRunner().invoke(app, ["forecast", "--help"]).stdout
    listed = {(name, int(code)) for code, name in re.findall(r"^ +(\d)  ([A-Z][A-Z ]*[A-Z]) ", page, re.MULTILINE)}
    assert listed == {(verdict.value, verdict.exit_code) for verdict in Verdict}


def test_forecast_says_what_the_plan_pads() -> None:
    bare = {"max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048, "num_blocks": 200}
    compared = answer(bare, command="compare")["strategies"]["Exponential"]
    padding = asked(bare)["padding"]
    assert round(padding["prompt"], 4) == compared["prompt_padding"] > 1
    assert round(padding["decode"], 4) == compared["decode_padding"] > 1
    assert round(padding["moreWithoutLastTen"], 4) == compared["more_compute_without_last_ten"]
    shown = " ".join(plan(bare, command="forecast").stdout.split())
    assert f"padding: prompt {padding['prompt']:.3f}, decode {padding['decode']:.3f} (1.0 is none)" in shown
    assert "`gaudi-plan compare`" in shown


def test_forecast_without_a_plan_knows_no_padding() -> None:
    none = merged(INFERENCE, {"spec": {"accelerator": {"generation": "none", "deviceMemory": "1Gi"}}})
    assert asked(none, "--model", LLAMA)["padding"] is None
