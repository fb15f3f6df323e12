"""What admission says of the manifests in examples/, which people copy."""

from pathlib import Path

import pytest
import yaml

from gaudi_operator.api.v1alpha1.accelerator import Generation
from gaudi_operator.cli.plan.forecast import foresee
from gaudi_operator.cli.plan.question import read_question
from gaudi_operator.core.admission.checks import first_violation, why_settings_are_ignored
from gaudi_operator.core.admission.review import doubt, estimated_violation, hints
from gaudi_operator.core.children.runtime_config import runtime_config
from gaudi_operator.core.resource import Inference, read_inference
from gaudi_runtime.knobs.render import Rendered, render
from tests.examples import EXAMPLES, FOLDER
from tests.unit.operator.core.resources import DEFAULTS

FIRST = FOLDER.parent / "charts" / "gaudi-operator" / "files" / "first.yaml"


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def example(path: Path) -> Inference:
    manifest = yaml.safe_load(path.read_text())
    return read_inference({**manifest, "metadata": {"namespace": "default", "uid": "u", **manifest["metadata"]}})


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_example_is_accepted(path: Path) -> None:
    assert first_violation(example(path), DEFAULTS) is None


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_no_estimate_speaks_against_an_example(path: Path) -> None:
    assert estimated_violation(example(path)) is None
    assert doubt(example(path)) is None


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_every_setting_of_an_example_has_an_effect(path: Path) -> None:
    assert why_settings_are_ignored(example(path)) is None


def of_a_card(path: Path) -> bool:
    """Whether it is for a card, real or described, and so has a forecast."""
    spec = example(path).spec
    return spec.accelerator.generation is not Generation.NONE or "card" in (spec.engine.simulation or {})


WITHOUT_FORECAST = {"reference-llama-3.1-8b-gaudi2-sim", "cards"}
"""One plays a server whose prompt graphs did not all fit; the other has a checkpoint that no table knows."""
FORECAST = [each for each in (*EXAMPLES, FIRST) if of_a_card(each) and each.stem not in WITHOUT_FORECAST]


@pytest.mark.parametrize("path", FORECAST, ids=lambda path: path.stem)
def test_example_for_a_card_names_a_model_that_fits(path: Path) -> None:
    found = foresee(read_question(yaml.safe_load(path.read_text())), card=None, model=None)
    assert found.forecast.model is not None
    assert found.fits is True, [each.message for each in found.problems]


def test_examples_have_names_of_their_own() -> None:
    names = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in EXAMPLES]
    repeated = {name for name in names if names.count(name) > 1}
    assert repeated == {"walkthrough"}, "the stories of examples/upgrade/story.sh alone tell of one model"


ARGUMENTS = {
    "cpu": ("--dtype=float32", "--max-model-len=256", "--block-size=32", "--model=/models"),
    "llama-3.1-8b": ("--model=/fetched", "--enable-auto-tool-choice", "--tool-call-parser=llama3_json"),
    "fp8-inc": ("--quantization=inc", "--kv-cache-dtype=fp8_inc", "--model=/models/llama-3.1-8b-instruct"),
    "tensor-parallel-8": ("--tensor-parallel-size=8", "--pipeline-parallel-size=1", "--max-model-len=8192"),
    "long-context": (
        "--max-model-len=131072",
        "--max-num-batched-tokens=8192",
        "--enable-prefix-caching",
        "--enable-chunked-prefill",
    ),
    "adapters": (
        "--enable-lora",
        "--max-loras=2",
        "--max-lora-rank=32",
        "sql=/adapters/0/sql",
        "support=/adapters/1/support",
    ),
}
VARIABLES = {
    "cpu": {"VLLM_API_KEY": None, "PT_HPU_LAZY_MODE": None, "VLLM_SKIP_WARMUP": None},
    "llama-3.1-8b": {"PT_HPU_LAZY_MODE": "0"},
    "fp8-inc": {"QUANT_CONFIG": "/models/llama-3.1-8b-instruct/inc/llama-3.1-8b-instruct/maxabs_quant_g2.json"},
    "tensor-parallel-8": {"PT_HPU_LAZY_MODE": "0", "PT_HPU_ENABLE_LAZY_COLLECTIVES": None},
    "long-context": {"VLLM_BUCKETING_STRATEGY": "pad"},
    "adapters": {"VLLM_CONTIGUOUS_PA": "true"},
}


def launched(name: str) -> Rendered:
    return render(runtime_config(example(FOLDER / "vllm" / f"{name}.yaml")))


def test_every_example_of_vllm_is_rendered_here() -> None:
    assert ARGUMENTS.keys() == VARIABLES.keys() == {path.stem for path in (FOLDER / "vllm").glob("*.yaml")}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_example_of_vllm_is_started_with_what_it_asks_for(name: str) -> None:
    assert set(ARGUMENTS[name]) - set(launched(name).args) == set()


@pytest.mark.parametrize("name", VARIABLES)
def test_example_of_vllm_tells_the_software_below_it(name: str) -> None:
    found = launched(name).env
    assert {each: found.get(each) for each in VARIABLES[name]} == VARIABLES[name]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nothing_speaks_against_an_example_of_vllm(name: str) -> None:
    assert hints(example(FOLDER / "vllm" / f"{name}.yaml")) == ()
