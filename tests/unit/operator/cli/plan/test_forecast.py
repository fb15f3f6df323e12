"""`gaudi-plan forecast`: whether a deployment fits, with reasons, remedies and figures."""

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
from gaudi_runtime.catalog.models.known import known_models
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.planning import planner
from gaudi_runtime.planning.planner import make_plan_from_ranges
from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import INFERENCE, RUNTIME_CONFIG, answer, plan, refusal

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


UNKNOWN_MODEL = merged(SEED, {"model": {"servedNames": ["tiny"]}})


def asked(document: object, *arguments: str) -> Any:
    return answer(document, *arguments, command="forecast")


def verdict_and_exit_code(document: object, *arguments: str) -> tuple[str, int]:
    """Return the output up to the first colon, and the exit code."""
    result = plan(document, *arguments, command="forecast")
    return result.stdout.partition(":")[0], result.exit_code


def test_forecast_computes_each_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    def counted(policy: BucketPolicy, limits: Limits, blocks: DeviceBlocks, warnings: Sequence[str] = ()) -> BucketPlan:
        made.append((policy, limits, blocks))
        return make_plan_from_ranges(policy, limits, blocks, warnings)

    monkeypatch.setattr(planner, "make_plan_from_ranges", counted)
    # The planner caches the plans of other tests in this process. So use a model length that no other test uses.
    asked(merged(INFERENCE, {"spec": {"model": {"maxModelLen": 2816}}}))
    assert made
    assert len(made) == len(set(made))


def test_forecast_of_seed_000_has_the_logged_graph_counts() -> None:
    found = asked(SEED)
    assert (found["card"], found["model"]) == ("gaudi2", LLAMA)
    assert (found["prompt"]["captured"], found["prompt"]["planned"], found["prompt"]["percent"]) == (15, 24, 62)
    assert found["decode"]["percent"] == 100


def test_every_value_has_a_source_and_a_confidence() -> None:
    found = asked(SEED)
    figures = [*found["memory"].values(), found["kvBlocks"], found["warmupSeconds"], found["prompt"]["graphBytes"]]
    assert all(figure["source"] and figure["confidence"] for figure in figures)


def test_table_is_marked_as_an_estimate_and_names_sources() -> None:
    text = plan(SEED, "--sources", command="forecast").stdout
    assert text.startswith(f"FITS WITH WARNINGS: {LLAMA} on card gaudi2 (an estimate)\n")
    assert "15 of 24 graphs captured (62 %), 24 by the most optimistic source" in text
    assert "logged as total device memory in log 000" in text


def test_sources_are_omitted_by_default() -> None:
    assert "log 000" not in plan(SEED, command="forecast").stdout


def test_verdict_and_remedy_come_before_the_table() -> None:
    before, _, _ = plan(SEED, command="forecast").stdout.partition("┏")
    before = before.replace("\n", " ")
    verdict, _, why = before.partition(" (an estimate) ")
    assert verdict.startswith("FITS WITH WARNINGS: ")
    assert why.startswith("remedy: raise warmup.graphMemoryPercent or: ")
    assert "a pod then serves with the graphs that fit warning: " in before
    assert "warning: About 15 of 24 prompt graphs" in before


def test_shortfall_by_only_some_sources_is_a_warning() -> None:
    assert verdict_and_exit_code(SEED) == ("FITS WITH WARNINGS", 0)


def test_remedy_of_a_too_large_model_is_more_cards() -> None:
    found = asked(SEED, "--model", "meta-llama/Llama-3.1-70B")
    assert found["problems"][0]["reason"] == "WeightsTooLarge"
    assert found["remedies"] == ["raise parallelism.tensor", "use a card with more memory"]
    assert verdict_and_exit_code(SEED, "--model", "meta-llama/Llama-3.1-70B") == ("DOES NOT FIT", 3)


def test_model_and_card_options_replace_those_of_the_document() -> None:
    found = asked(SEED, "--model", "qwen/qwen3-8b", "--card", "gaudi3", "--kv-blocks", "1519")
    assert (found["card"], found["model"]) == ("gaudi3", "Qwen/Qwen3-8B")
    assert found["kvBlocks"] == {"value": 1519, "confidence": "exact", "source": "given"}


def test_verdict_is_unknown_if_the_model_is_unknown() -> None:
    found = asked(UNKNOWN_MODEL)
    assert (found["verdict"], found["memory"], found["prompt"]["captured"]) == ("UNKNOWN", None, None)
    assert found["why"][0] == "The model's shape is unknown, so the memory that it needs is unknown too."
    (remedy,) = found["remedies"]
    assert remedy.startswith("name the model: --model with a public repository or the path of its config.json")


def test_card_comes_from_the_manifest() -> None:
    assert asked(INFERENCE)["card"] == "gaudi2"


def test_model_comes_from_the_hugging_face_source() -> None:
    model = {"source": {"huggingFace": {"repo": LLAMA}}, "maxModelLen": 4096}
    found = asked({**INFERENCE, "spec": {**INFERENCE["spec"], "model": model}})  # type: ignore[dict-item]
    assert found["model"] == LLAMA


def test_runtime_config_for_a_cpu_has_no_card() -> None:
    found = asked(RUNTIME_CONFIG)
    assert (found["card"], found["warmupSeconds"]) == ("none", None)


def test_simulated_card_is_the_card_of_the_forecast() -> None:
    config = {**RUNTIME_CONFIG, "engine": {"name": "sim", "simScript": {"card": "gaudi3"}}}
    assert asked(config)["card"] == "gaudi3"


@pytest.mark.parametrize("place", [".", "config.json"])
@pytest.mark.parametrize(
    "repository", [LLAMA, "openai/gpt-oss-20b", "Qwen/Qwen3.5-35B-A3B", "deepseek-ai/DeepSeek-V2-Lite"]
)
def test_config_json_has_the_forecast_of_its_repository(tmp_path: Path, place: str, repository: str) -> None:
    entry = known_models()[repository.lower()]
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
    by_name, estimated = asked(SEED, "--model", repository), asked(SEED, "--model", str(tmp_path / place))
    assert estimated["verdict"] == by_name["verdict"]
    index = {"metadata": {"total_size": entry["bytes"]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    listed = asked(SEED, "--model", str(tmp_path / place))
    assert listed["memory"]["weights"]["value"] == by_name["memory"]["weights"]["value"]


def test_csv_has_a_row_for_each_value() -> None:
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
def test_unknown_card_or_model_is_refused(arguments: tuple[str, str], words: str) -> None:
    assert words in refusal(SEED, *arguments, command="forecast")


def test_checkpoint_of_an_unknown_model_family_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    said = refusal(SEED, "--model", str(tmp_path), command="forecast")
    assert "model_type 'bert'" in said
    assert "Without --model, the buckets are still planned, and the first pod measures memory" in said


def test_spec_that_the_operator_refuses_has_verdict_refused() -> None:
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
    assert verdict_and_exit_code(several) == ("REFUSED", 4)
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
        "readiness": {"minCapturedPromptPercent": 100, "minCapturedDecodePercent": 100},
    },
}
"""A manifest for a card that requires all graphs. Everything else is default, so its mode is TorchCompile."""
OPENS = "The gate opens when the pod has captured 100 % of the prompt graphs and 100 % of the decode graphs."


def card(**changes: Any) -> dict[str, Any]:
    return {**CARD, "spec": merged(CARD["spec"], changes)}


def test_torch_compile_forecast_has_no_values_of_hpu_graphs() -> None:
    found = asked(CARD)
    assert found["verdict"] == "FITS WITH WARNINGS"
    assert OPENS in found["warnings"][0]
    for phase in ("prompt", "decode"):
        assert (found[phase]["captured"], found[phase]["graphBytes"], found[phase]["allGraphBytes"]) == (None,) * 3
    assert found["warmupSeconds"]["high"] > found["warmupSeconds"]["value"]
    assert "graphs captured" not in plan(CARD, command="forecast").stdout


@pytest.mark.parametrize("mode", ["HpuGraphs", "TorchCompile"])
@pytest.mark.parametrize("shortfall", ["Block", "ServeAndWarn"])
def test_graphs_that_may_be_missing_are_a_warning(mode: str, shortfall: str) -> None:
    found = card(engine={"executionMode": mode}, readiness={"onShortfall": shortfall})
    assert verdict_and_exit_code(found) == ("FITS WITH WARNINGS", 0)


@pytest.mark.parametrize("mode", ["Eager", "Lazy"])
def test_mode_without_graphs_is_a_warning(mode: str) -> None:
    found = asked(card(engine={"executionMode": mode}))
    assert found["verdict"] == "FITS WITH WARNINGS"
    assert found["warnings"][0].startswith(f"No graphs are captured in execution mode {mode}")


def test_skipped_warmup_is_a_warning() -> None:
    found = asked(merged(SEED, {"warmup": {"enabled": False}}))
    assert found["verdict"] == "FITS WITH WARNINGS"
    assert any(said.startswith("Warm-up is skipped.") for said in found["warnings"])


def test_length_above_the_model_is_refused() -> None:
    longer = card(model={"source": {"huggingFace": {"repo": "meta-llama/Meta-Llama-3-8B"}}, "maxModelLen": 8448})
    assert verdict_and_exit_code(longer) == ("REFUSED", 4)
    assert asked(longer)["why"] == ["maxModelLen is 8448, but the model supports at most 8192 tokens."]
    allowed = merged(longer, {"spec": {"engine": {"settings": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}}})
    assert verdict_and_exit_code(allowed)[1] == 0


def test_simulation_with_sizes_of_its_own_fits() -> None:
    result = plan(RUNTIME_CONFIG, command="forecast")
    assert result.exit_code == 0
    assert "simulated model on card none" in result.stdout


def test_prefix_caching_of_gated_delta_nets_is_a_problem() -> None:
    model = {"source": {"huggingFace": {"repo": "Qwen/Qwen3.5-35B-A3B"}}, "maxModelLen": 4096}
    settings = {"settings": {"VLLM_CONTIGUOUS_PA": "false"}}
    assert verdict_and_exit_code(card(model=model, engine=settings))[1] == 0
    found = asked(card(model=model, engine={**settings, "prefixCaching": True}))
    assert found["problems"][0]["reason"] == "SettingRefused"


def test_deployment_without_thresholds_fits() -> None:
    none = {"minCapturedPromptPercent": 0, "minCapturedDecodePercent": 0}
    assert verdict_and_exit_code(card(readiness=none)) == ("FITS", 0)


def test_indivisible_attention_heads_are_refused() -> None:
    uneven = card(parallelism={"tensor": 3})
    assert verdict_and_exit_code(uneven) == ("REFUSED", 4)
    assert "parallelism.tensor is 3, but must be a divisor" in asked(uneven)["why"][0]


def test_shapes_without_a_bucket_cause_a_warning() -> None:
    gaps = card(
        bucketing={"strategy": "File", "file": "(1, 4096, 0)\n(128, 1, 8192)", "gaps": "Allow"},
        readiness={"minCapturedPromptPercent": 0, "minCapturedDecodePercent": 0},
    )
    found = asked(gaps)
    assert found["coverage"]["prompt"]["withoutBucket"] > 0
    assert found["verdict"] == "FITS WITH WARNINGS"
    assert any("of the prompt shapes that the limits admit have no bucket" in said for said in found["warnings"])


def test_qwen_vl_on_one_gaudi_3_is_forecast_without_warnings() -> None:
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


def test_forecast_has_the_padding_of_the_comparison() -> None:
    found = asked(RUNTIME_CONFIG, "--strategies")
    assert {phase: found["strategies"]["Optimal"][phase]["padding"] for phase in ("prompt", "decode")} == (
        found["padding"]
    )
    shown = " ".join(plan(RUNTIME_CONFIG, command="forecast").stdout.split())
    assert f"padding: prompt {found['padding']['prompt']:.3f}, decode {found['padding']['decode']:.3f} (1.0 is" in shown


def test_forecast_without_a_plan_has_no_padding() -> None:
    none = merged(INFERENCE, {"spec": {"accelerator": {"generation": "none", "deviceMemory": "1Gi"}}})
    assert asked(none, "--model", LLAMA)["padding"] is None
