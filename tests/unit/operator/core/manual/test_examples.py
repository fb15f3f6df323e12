"""Admission of the manifests in examples/."""

import json
from pathlib import Path

import pytest
import yaml

from gaudi_operator.cli.plan.document import read_plan_document
from gaudi_operator.cli.plan.forecast import forecast_document
from gaudi_operator.cli.plan.verdict import NAME_THE_MODEL, UNKNOWN_SHAPE, ForecastWithVerdict, Verdict
from gaudi_operator.core.admission.engine_settings import (
    check_slicing_settings,
    engine_policy_check,
    engine_settings_hints,
    why_engine_settings_are_ignored,
)
from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_operator.core.inference import Inference, read_inference
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.knobs.render import RenderedEngineOptions, render_engine_options
from gaudi_runtime.planning.coverage import plan_coverage
from tests.support.examples import EXAMPLES, FOLDER, Manifest, completed, fragments, manifests
from tests.unit.operator.core.resources import DEFAULTS


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def example(path: Path) -> Inference:
    manifest = yaml.safe_load(path.read_text())
    return read_inference({**manifest, "metadata": {"namespace": "default", "uid": "u", **manifest["metadata"]}})


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_example_is_accepted(path: Path) -> None:
    assert first_spec_violation(example(path), DEFAULTS) is None
    assert check_slicing_settings(example(path)) is None
    assert engine_policy_check(example(path)).run() is None


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_every_setting_of_an_example_has_an_effect(path: Path) -> None:
    assert why_engine_settings_are_ignored(example(path)) is None


MANIFESTS = manifests()
SHOWN = {place: completed(fragment) for place, fragment in fragments().items()}
ALL = [pytest.param(found, id=place) for place, found in {**MANIFESTS, **SHOWN}.items()]


def forecast_of(manifest: Manifest) -> ForecastWithVerdict:
    return forecast_document(read_plan_document(manifest), card=None, model=None)


def test_manual_and_chart_show_valid_manifests() -> None:
    assert "charts/gaudi-operator/files/first.yaml" in MANIFESTS
    assert {"docs/how-to/running-vllm.md", "docs/how-to/pods.md"} <= {place.partition(" ")[0] for place in SHOWN}


@pytest.mark.parametrize("manifest", ALL)
def test_every_shape_has_a_bucket_or_gaps_are_allowed(manifest: Manifest) -> None:
    question = read_plan_document(manifest)
    gaps = plan_coverage(question.plan(), question.limits, question.blocks).describe_gaps()
    assert gaps is None or manifest["spec"]["bucketing"]["gaps"] == "Allow"


@pytest.mark.parametrize("manifest", ALL)
def test_forecast_fits_if_the_model_has_a_shape(manifest: Manifest) -> None:
    found = forecast_of(manifest)
    if found.verdict is Verdict.UNKNOWN:
        assert found.forecast.model is None
        assert found.config.engine.name is not EngineName.SIM
        assert (found.reasons, found.remedies) == ((UNKNOWN_SHAPE,), (NAME_THE_MODEL,))
    else:
        assert found.verdict.exit_code == 0, found.reasons
        assert found.shortfalls == ()


TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "vocab_size": 512,
}


@pytest.mark.parametrize("manifest", ALL)
def test_model_without_a_public_name_fits_by_its_config(manifest: Manifest, tmp_path: Path) -> None:
    if forecast_of(manifest).verdict is not Verdict.UNKNOWN:
        return
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    found = forecast_document(read_plan_document(manifest), card=None, model=str(tmp_path))
    assert found.verdict.exit_code == 0, found.reasons


@pytest.mark.parametrize("path", sorted((FOLDER / "vllm").glob("*.yaml")), ids=name_of)
def test_vllm_example_for_a_card_names_a_known_model(path: Path) -> None:
    assert forecast_of(yaml.safe_load(path.read_text())).forecast.model is not None


def test_examples_have_unique_names() -> None:
    names = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in EXAMPLES]
    repeated = {name for name in names if names.count(name) > 1}
    assert repeated == {"walkthrough"}, "the stories of examples/upgrade/common.sh alone name one model"


ARGUMENTS = {
    "llama-3.1-8b": ("--model=/fetched", "--enable-auto-tool-choice", "--tool-call-parser=llama3_json"),
    "fp8-inc": ("--quantization=inc", "--kv-cache-dtype=fp8_inc", "--model=/models/llama-3.1-8b-instruct"),
    "tensor-parallel-8": ("--tensor-parallel-size=8", "--pipeline-parallel-size=1", "--max-model-len=8192"),
    "long-context": (
        "--max-model-len=131072",
        "--max-num-batched-tokens=8192",
        "--enable-prefix-caching",
        "--enable-chunked-prefill",
    ),
    "qwen2.5-vl-7b": ("--model=/fetched", '--limit-mm-per-prompt={"audio": 1, "image": 2, "video": 0}'),
    "adapters": (
        "--enable-lora",
        "--max-loras=2",
        "--max-lora-rank=32",
        "sql=/adapters/0/sql",
        "support=/adapters/1/support",
    ),
}
VARIABLES = {
    "llama-3.1-8b": {"PT_HPU_LAZY_MODE": "0"},
    "fp8-inc": {"QUANT_CONFIG": "/models/llama-3.1-8b-instruct/inc/llama-3.1-8b-instruct/maxabs_quant_g2.json"},
    "tensor-parallel-8": {"PT_HPU_LAZY_MODE": "0", "PT_HPU_ENABLE_LAZY_COLLECTIVES": None},
    "long-context": {"VLLM_BUCKETING_STRATEGY": "pad"},
    "qwen2.5-vl-7b": {"PT_HPU_LAZY_MODE": "0", "VLLM_MULTIMODAL_BUCKETS": None},
    "adapters": {"VLLM_CONTIGUOUS_PA": "true"},
}


def render_example(name: str) -> RenderedEngineOptions:
    return render_engine_options(runtime_config(example(FOLDER / "vllm" / f"{name}.yaml")))


def test_every_vllm_example_has_expected_arguments_and_variables() -> None:
    assert ARGUMENTS.keys() == VARIABLES.keys() == {path.stem for path in (FOLDER / "vllm").glob("*.yaml")}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_vllm_example_has_the_expected_arguments(name: str) -> None:
    assert set(ARGUMENTS[name]) - set(render_example(name).args) == set()


@pytest.mark.parametrize("name", VARIABLES)
def test_vllm_example_has_the_expected_environment_variables(name: str) -> None:
    found = render_example(name).env
    assert {each: found.get(each) for each in VARIABLES[name]} == VARIABLES[name]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_vllm_example_has_no_warnings(name: str) -> None:
    found = example(FOLDER / "vllm" / f"{name}.yaml")
    # Every plan for images has this hint, because only a running pod knows for which image sizes it warms up.
    expected = ("Vision buckets are unkno",) if found.spec.model.items_per_prompt.image else ()
    assert tuple(hint[:24] for hint in engine_settings_hints(found)) == expected
