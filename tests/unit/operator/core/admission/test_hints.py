"""Hints in the condition PlanAccepted. A hint does not refuse the spec."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.admission.engine_settings import engine_settings_hints
from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_operator.core.status.spec_conditions import judge_spec_plan_accepted
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference
from tests.unit.operator.core.states import state_of

VLLM = {"name": "vllm"}


def repository(name: str, **model: Any) -> dict[str, Any]:
    return {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": name}}, **model}


def hints_of(**overrides: Any) -> tuple[str, ...]:
    return engine_settings_hints(inference(**{"engine": VLLM, "accelerator": CARD, **overrides}))


def test_earlier_default_mode_gets_a_hint() -> None:
    model = repository("meta-llama/Llama-3.1-8B", dtype="bfloat16")
    asked = inference(engine=VLLM, accelerator=CARD, model=model)
    assert engine_settings_hints(replace(asked, stored_mode=ExecutionMode.HPU_GRAPHS)) == (
        "spec.engine.executionMode is left out. The pods use HpuGraphs, the default when their revision was created, "
        "but the next revision uses TorchCompile. To keep HpuGraphs, set spec.engine.executionMode to HpuGraphs. "
        "This restarts no pods.",
    )
    assert engine_settings_hints(replace(asked, stored_mode=ExecutionMode.TORCH_COMPILE)) == ()


def test_simulation_gets_no_hint() -> None:
    assert (
        engine_settings_hints(
            inference(engine={"name": "sim", "maxNumBatchedTokens": 128}, model=repository("acme/own"))
        )
        == ()
    )


def test_hint_is_in_the_condition_and_spec_is_accepted() -> None:
    found = inference(engine=VLLM, accelerator=CARD, model=repository("acme/own", itemsPerPrompt={"image": 1}))
    assert first_spec_violation(found, DEFAULTS) is None
    verdict = judge_spec_plan_accepted(state_of(inference=found))
    assert verdict.reason == "Accepted"
    assert verdict.message.endswith("Until then, plans contain no vision buckets.")


def test_speculation_gets_a_hint_about_greedy_requests() -> None:
    drafting = {**VLLM, "settings": {"--speculative-config": '{"method": "ngram", "num_speculative_tokens": 2}'}}
    assert hints_of(engine=drafting, model=repository("meta-llama/Llama-3.1-8B", dtype="bfloat16")) == (
        "With speculative decoding, only greedy requests are served. Requests with a temperature, logprobs or a "
        "grammar get status 400.",
    )


@pytest.mark.parametrize("items", [{"image": 4}, {"video": 1}])
def test_vision_model_gets_a_hint_about_unplanned_buckets(items: dict[str, int]) -> None:
    model = repository("meta-llama/Llama-3.1-8B", dtype="bfloat16", itemsPerPrompt=items)
    assert hints_of(model=model) == (
        "Vision buckets are unknown until a pod has loaded the model. Until then, plans contain no vision buckets.",
    )
