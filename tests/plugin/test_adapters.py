"""A LoRA adapter and its model with the plugin's LoRA layers. Every batch replays a graph that warm-up captured."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.config import AdapterConfig
from tests.plugin.cases import DEFAULT, QUICK, Case, case_config, in_matrix
from tests.plugin.engine import Facts, Run, call_in_fork, run_in_fork
from tests.plugin.serving import PROMPTS, largest_logit_gap
from tests.vllm.adapter import RANK, make_adapter

TOKENS, ALPHA = 12, 1
ASKED = (PROMPTS[0], PROMPTS[0], PROMPTS[1])
"""The first prompt is for the model itself, the others are for the adapter. All are in one batch."""


async def serve_both(adapter: str, run: Run) -> Facts:
    from vllm.lora.request import LoRARequest

    await run.start()
    before, chosen = run.ranks(), LoRARequest("other", 1, adapter)
    return {
        "before": before,
        "answers": run.answer(ASKED, TOKENS, [None, chosen, chosen]),
        "after": run.ranks(),
        "counted": await run.count_batches(),
        "hits": run.engine.counters.hits,
    }


def merge_adapter(checkpoint: Path, adapter: Path, folder: Path) -> str:
    """Write a checkpoint with the adapter merged into the weights, and return its path."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    tensors = load_file(adapter / "adapter_model.safetensors")
    for number, layer in enumerate(model.model.layers):
        low, high = (
            tensors[f"base_model.model.model.layers.{number}.self_attn.q_proj.lora_{side}.weight"] for side in "AB"
        )
        with torch.no_grad():
            layer.self_attn.q_proj.weight += high @ low * (ALPHA / RANK)
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> AdapterConfig:
    folder = tmp_path_factory.mktemp("adapter")
    call_in_fork(lambda: make_adapter(folder / "other", "other", ALPHA).path, folder)
    return AdapterConfig(name="other", path=str(folder / "other"))


@pytest.fixture(scope="module", params=in_matrix(DEFAULT, QUICK[0]), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(
    case: Case, adapter: AdapterConfig, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Facts:
    config = case_config(case, checkpoints["llama"])
    model = config.model.model_copy(update={"adapters": (adapter,)})
    work = partial(serve_both, adapter.path)
    return run_in_fork(work, config.model_copy(update={"model": model}), tmp_path_factory.mktemp("adapters"))


def test_batch_of_model_and_adapter_causes_no_capture_or_compile(facts: Facts) -> None:
    (before,), (after,) = facts["before"], facts["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert facts["counted"] == after["served"]
    assert facts["hits"] == sum(after["served"].values())


def test_base_model_next_to_an_adapter_answers_like_transformers(
    facts: Facts, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = [(ASKED[0], facts["answers"][0])]
    assert call_in_fork(partial(largest_logit_gap, checkpoints["llama"], answers), tmp_path) < 0.15


def test_adapter_answers_like_transformers_with_merged_weights(
    facts: Facts, adapter: AdapterConfig, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    whole = Path(
        call_in_fork(partial(merge_adapter, checkpoints["llama"], Path(adapter.path), tmp_path / "merged"), tmp_path)
    )
    answers = list(zip(ASKED[1:], facts["answers"][1:], strict=True))
    assert call_in_fork(partial(largest_logit_gap, whole, answers), tmp_path) < 0.15
    assert facts["answers"][1] != facts["answers"][0]
