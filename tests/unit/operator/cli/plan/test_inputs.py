"""Documents that `gaudi-plan` accepts: manifests, lists, a RuntimeConfig, and one of several."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.examples import EXAMPLES
from tests.unit.operator.cli.plan.asked import INFERENCE, LINEAR, RUNTIME_CONFIG, answer, plan, refusal

ROOT = Path(__file__).parents[5]


def spec(**sections: dict[str, Any]) -> dict[str, Any]:
    merged = {key: INFERENCE["spec"].get(key, {}) | sections.get(key, {}) for key in {*INFERENCE["spec"], *sections}}
    return INFERENCE | {"spec": merged}


def test_inference_has_the_plan_of_its_runtime_config() -> None:
    assert answer(INFERENCE) == answer(RUNTIME_CONFIG)


def test_kv_blocks_of_a_known_model_are_estimated() -> None:
    printed = answer((ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml").read_text())
    assert " KV blocks are estimated from the description of card" in printed["warnings"][0]


def test_given_kv_blocks_replace_the_estimate() -> None:
    text = (ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml").read_text()
    assert not any("KV blocks are" in warning for warning in answer(text, "--kv-blocks", "4000")["warnings"])


def test_inference_in_yaml_is_planned() -> None:
    assert answer(yaml.safe_dump(INFERENCE)) == answer(INFERENCE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_has_a_plan(path: Path) -> None:
    assert answer(path.read_text())["prompt"]


def test_manifest_among_others_is_found() -> None:
    others = yaml.safe_dump_all([{"kind": "Namespace", "metadata": {"name": "models"}}, INFERENCE, None])
    assert answer(others) == answer(INFERENCE)


def test_manifest_in_a_list_is_found() -> None:
    assert answer({"kind": "List", "items": [INFERENCE]}) == answer(INFERENCE)


def test_one_of_several_manifests_is_chosen_by_name() -> None:
    other = spec(engine={"maxNumSeqs": 4}) | {"metadata": {"name": "other"}}
    assert answer(yaml.safe_dump_all([INFERENCE, other]), "--name", "other") == answer(other)


def test_several_manifests_without_a_name_are_refused() -> None:
    other = INFERENCE | {"metadata": {"name": "other"}}
    said = refusal(yaml.safe_dump_all([INFERENCE, other]))
    assert "the file has 2 documents (llama, other). Choose one with --name" in said


def test_unknown_manifest_name_is_refused() -> None:
    assert "there is no GaudiInference called other in the document" in refusal(INFERENCE, "--name", "other")


def test_byte_order_mark_is_ignored() -> None:
    assert answer(b"\xef\xbb\xbf" + json.dumps(LINEAR).encode()) == answer(LINEAR)


def test_status_of_a_live_object_is_ignored() -> None:
    assert answer(INFERENCE | {"status": {"phase": "Serving", "new": 1}}) == answer(INFERENCE)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (spec(engine={"maxNumSeqs": -1}), "spec.engine.maxNumSeqs: Input should be greater than or equal to 1"),
        (spec(model={"maxModelLen": None}), "spec.model.maxModelLen: Input should be a valid integer"),
        (INFERENCE | {"spec": {"engine": {}}}, "spec.model is missing"),
        (INFERENCE | {"spec": [1]}, "input: spec must be a mapping"),
        (INFERENCE | {"apiVersion": "inference.gaudi.dev/v2"}, "apiVersion 'inference.gaudi.dev/v2' is not supported"),
        (RUNTIME_CONFIG | {"limit": {}}, "limit is not a field of this document; remove it"),
        (RUNTIME_CONFIG | {"version": "v2"}, "version: Input should be 'v1'"),
    ],
)
def test_invalid_manifest_is_refused_with_its_field(document: object, sentence: str) -> None:
    assert sentence in refusal(document)


def test_file_and_cluster_together_are_refused() -> None:
    said = plan(INFERENCE, "--from-cluster", "llama").stderr
    assert said == "gaudi-plan: give a model to plan for: -f FILE (- reads standard input) or --from-cluster NAME.\n"
