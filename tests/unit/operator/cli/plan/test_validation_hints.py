"""Hints of `gaudi-plan forecast` about models that are not published as validated on a card."""

from typing import Any

import pytest

from gaudi_operator.cli.plan.validation_hints import validation_hints
from tests.unit.operator.core.resources import CARD, inference

GAUDI2 = {"generation": "gaudi2", "deviceMemory": None}
VLLM = {"name": "vllm"}
PUBLISHED = "is published as validated on"
MAY_WORK = "The model may still work on this card."


def repository(name: str, **model: Any) -> dict[str, Any]:
    return {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": name}}, **model}


def hints_of(**overrides: Any) -> tuple[str, ...]:
    return tuple(validation_hints(inference(**{"engine": VLLM, "accelerator": CARD, **overrides})))


def test_published_configuration_needs_no_hint() -> None:
    assert hints_of(model=repository("meta-llama/Llama-3.1-8B", dtype="bfloat16")) == ()


def test_renamed_model_is_recognized() -> None:
    assert hints_of(model=repository("meta-llama/Meta-Llama-3.1-70B"), parallelism={"tensor": 4}) == ()


def test_other_tensor_parallelism_gets_a_hint() -> None:
    assert hints_of(model=repository("meta-llama/Llama-3.3-70B-Instruct"), parallelism={"tensor": 2}) == (
        f"meta-llama/Llama-3.3-70B-Instruct {PUBLISHED} gaudi3 with tensor parallel 4 or 8, but "
        "spec.parallelism.tensor is 2.",
    )


def test_one_card_needs_no_hint_for_qwen_vl() -> None:
    assert hints_of(model=repository("Qwen/Qwen2.5-VL-7B-Instruct", dtype="bfloat16")) == ()


def test_older_validation_list_is_marked_as_older() -> None:
    (found,) = hints_of(model=repository("Qwen/Qwen3-32B"), parallelism={"tensor": 4})
    assert found == (
        f"Qwen/Qwen3-32B {PUBLISHED} gaudi3, by a release before vLLM's plugin for Gaudi, with tensor parallel 8, "
        "but spec.parallelism.tensor is 4."
    )


@pytest.mark.parametrize(
    "model", [repository("meta-llama/Llama-3.2-11B-Vision-Instruct"), {"servedNames": ["llama-3.2-90b-vision"]}]
)
def test_model_unsupported_by_all_releases_cannot_start(model: dict[str, Any]) -> None:
    (found,) = hints_of(model=model)
    assert found.endswith(" cannot start: vLLM 0.10.2 is the last release that serves it. Choose another model.")


def test_other_datatype_gets_a_hint() -> None:
    model = repository("meta-llama/Llama-3.1-70B-Instruct", quantization={"method": "awq"})
    assert hints_of(model=model, parallelism={"tensor": 8}) == (
        f"meta-llama/Llama-3.1-70B-Instruct {PUBLISHED} gaudi3 with bf16 or fp8, but this spec uses int4.",
    )


def test_other_card_gets_a_hint() -> None:
    assert hints_of(model=repository("Qwen/Qwen3-32B"), accelerator=GAUDI2, parallelism={"tensor": 8}) == (
        f"Qwen/Qwen3-32B {PUBLISHED} gaudi3, but not on gaudi2. {MAY_WORK}",
    )


def test_unlisted_model_gets_a_hint() -> None:
    assert hints_of(model=repository("acme/own")) == (f"acme/own {PUBLISHED} no card. {MAY_WORK}",)


def test_missing_family_setting_gets_a_hint_until_set() -> None:
    model, tensor = repository("Qwen/Qwen3-32B"), {"tensor": 8}
    name = "PT_HPUGRAPH_DISABLE_TENSOR_CACHE"
    graphs = {**VLLM, "executionMode": "HpuGraphs"}
    for mode in ("HpuGraphs", "Lazy"):
        (found,) = hints_of(model=model, parallelism=tensor, engine={**VLLM, "executionMode": mode})
        assert f'{name}: "false", but spec.engine.settings does not contain this setting.' in found
    assert hints_of(model=model, parallelism=tensor, engine={**graphs, "settings": {name: "true"}}) == ()
    assert hints_of(model=model, parallelism=tensor) == ()


@pytest.mark.parametrize("names", [["chat"], ["chat", "acme/own"]])
def test_custom_checkpoint_is_not_matched_by_name(names: list[str]) -> None:
    assert hints_of(model={"servedNames": names}) == ()


def test_served_name_of_a_published_model_is_matched() -> None:
    (found,) = hints_of(model={"servedNames": ["chat", "llama-3.3-70b-instruct"]})
    assert "tensor parallel 4 or 8" in found


def test_simulation_gets_no_validation_hint() -> None:
    assert hints_of(engine={"name": "sim", "maxNumBatchedTokens": 128}, model=repository("acme/own")) == ()
