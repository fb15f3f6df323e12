"""What is told of a spec and refuses nothing."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.admission.checks import first_violation
from gaudi_operator.core.admission.review import plan_hints
from gaudi_operator.core.status.plan import judge_plan_accepted
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference
from tests.unit.operator.core.states import state_of

GAUDI2 = {"generation": "gaudi2", "deviceMemory": None}
VLLM = {"name": "vllm"}
PUBLISHED = "is published as validated on"
MAY_WORK = "it may work all the same."


def repository(name: str, **model: Any) -> dict[str, Any]:
    return {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": name}}, **model}


def hinted(**overrides: Any) -> tuple[str, ...]:
    return plan_hints(inference(**{"engine": VLLM, "accelerator": CARD, **overrides}))


@pytest.mark.parametrize("engine", ["vllm", "torch"])
def test_mode_of_an_earlier_default_is_told(engine: str) -> None:
    model = repository("meta-llama/Llama-3.1-8B", dtype="bfloat16")
    asked = inference(engine={"name": engine}, accelerator=CARD, model=model)
    assert plan_hints(replace(asked, kept_mode=ExecutionMode.HPU_GRAPHS)) == (
        "spec.engine.executionMode is left out and its pods run in HpuGraphs, the default when their revision was "
        "made: the next revision takes TorchCompile. To keep HpuGraphs, write it, which restarts nothing.",
    )
    assert plan_hints(replace(asked, kept_mode=ExecutionMode.TORCH_COMPILE)) == ()


def test_published_configuration_needs_no_hint() -> None:
    assert hinted(model=repository("meta-llama/Llama-3.1-8B", dtype="bfloat16")) == ()


def test_model_that_was_renamed_is_the_same() -> None:
    assert hinted(model=repository("meta-llama/Meta-Llama-3.1-70B"), parallelism={"tensor": 4}) == ()


def test_other_tensor_parallelism_is_told() -> None:
    assert hinted(model=repository("meta-llama/Llama-3.3-70B-Instruct"), parallelism={"tensor": 2}) == (
        f"meta-llama/Llama-3.3-70B-Instruct {PUBLISHED} gaudi3 with tensor parallel 4 or 8; "
        "spec.parallelism.tensor is 2.",
    )


def test_one_card_is_enough_for_qwen_vl() -> None:
    assert hinted(model=repository("Qwen/Qwen2.5-VL-7B-Instruct", dtype="bfloat16")) == ()


def test_older_list_is_named_as_older() -> None:
    (found,) = hinted(model=repository("Qwen/Qwen3-32B"), parallelism={"tensor": 4})
    assert found == (
        f"Qwen/Qwen3-32B {PUBLISHED} gaudi3, by a release before vLLM's plugin for Gaudi, with tensor parallel 8; "
        "spec.parallelism.tensor is 4."
    )


@pytest.mark.parametrize(
    "model", [repository("meta-llama/Llama-3.2-11B-Vision-Instruct"), {"servedNames": ["llama-3.2-90b-vision"]}]
)
def test_model_that_no_driven_release_serves_cannot_start(model: dict[str, Any]) -> None:
    (found,) = hinted(model=model)
    assert found.endswith(" cannot start: vLLM 0.10.2 is the last release that serves it. Choose another model.")


def test_other_datatype_is_told() -> None:
    model = repository("meta-llama/Llama-3.1-70B-Instruct", quantization={"method": "awq"})
    assert hinted(model=model, parallelism={"tensor": 8}) == (
        f"meta-llama/Llama-3.1-70B-Instruct {PUBLISHED} gaudi3 with bf16 or fp8, not int4.",
    )


def test_other_card_is_told() -> None:
    assert hinted(model=repository("Qwen/Qwen3-32B"), accelerator=GAUDI2, parallelism={"tensor": 8}) == (
        f"Qwen/Qwen3-32B {PUBLISHED} gaudi3 and not on gaudi2; {MAY_WORK}",
    )


def test_model_in_no_list_is_told() -> None:
    assert hinted(model=repository("acme/own")) == (f"acme/own {PUBLISHED} no card; {MAY_WORK}",)


def test_setting_of_a_family_is_told_until_it_is_said() -> None:
    model, tensor = repository("Qwen/Qwen3-32B"), {"tensor": 8}
    name = "PT_HPUGRAPH_DISABLE_TENSOR_CACHE"
    graphs = {**VLLM, "executionMode": "HpuGraphs"}
    for mode in ("HpuGraphs", "Lazy"):
        (found,) = hinted(model=model, parallelism=tensor, engine={**VLLM, "executionMode": mode})
        assert f'{name}: "false", which spec.engine.settings leaves out.' in found
    assert hinted(model=model, parallelism=tensor, engine={**graphs, "settings": {name: "true"}}) == ()
    assert hinted(model=model, parallelism=tensor) == ()


@pytest.mark.parametrize("names", [["chat"], ["chat", "acme/own"]])
def test_checkpoint_of_ones_own_is_not_judged_by_its_names(names: list[str]) -> None:
    assert hinted(model={"servedNames": names}) == ()


def test_served_name_of_a_published_model_is_judged() -> None:
    (found,) = hinted(model={"servedNames": ["chat", "llama-3.3-70b-instruct"]})
    assert "tensor parallel 4 or 8" in found


@pytest.mark.parametrize("engine", ["torch", "sim"])
def test_other_engines_get_no_hint(engine: str) -> None:
    assert (
        plan_hints(inference(engine={"name": engine, "maxNumBatchedTokens": 128}, model=repository("acme/own"))) == ()
    )


def test_hint_stands_in_the_condition_and_refuses_nothing() -> None:
    found = inference(engine=VLLM, accelerator=CARD, model=repository("acme/own"))
    assert first_violation(found, DEFAULTS) is None
    verdict = judge_plan_accepted(state_of(inference=found))
    assert verdict.reason == "Accepted"
    assert verdict.message.endswith(f"no card; {MAY_WORK}")


def test_drafts_are_told_to_be_for_greedy_requests() -> None:
    drafting = {**VLLM, "settings": {"--speculative-config": '{"method": "ngram", "num_speculative_tokens": 2}'}}
    assert hinted(engine=drafting, model=repository("meta-llama/Llama-3.1-8B", dtype="bfloat16")) == (
        "Drafts are for greedy requests: those with a temperature, logprobs or a grammar are answered 400.",
    )


@pytest.mark.parametrize("items", [{"image": 4}, {"video": 1}])
def test_images_are_told_that_no_plan_has_their_buckets(items: dict[str, int]) -> None:
    model = repository("meta-llama/Llama-3.1-8B", dtype="bfloat16", itemsPerPrompt=items)
    assert hinted(model=model) == (
        "Vision buckets are known once a pod has loaded the model: before that they are counted in no plan and no "
        "estimate.",
    )
