"""A LoRA adapter beside its model, through the plugin's own LoRA layers: every batch runs from a graph of warm-up."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.config import AdapterConfig
from tests.plugin.cases import DEFAULT, QUICK, Case, configured, in_matrix
from tests.plugin.engine import Facts, Run, forked, in_own_process
from tests.plugin.serving import PROMPTS, worst_gap
from tests.vllm.adapter import RANK, make_adapter

TOKENS, ALPHA = 12, 1
ASKED = (PROMPTS[0], PROMPTS[0], PROMPTS[1])
"""The first of the model itself, the others of the adapter; all in one batch."""


async def serve_both(adapter: str, run: Run) -> Facts:
    from vllm.lora.request import LoRARequest

    await run.start()
    before, chosen = run.ranks(), LoRARequest("other", 1, adapter)
    return {
        "before": before,
        "answers": run.answer(ASKED, TOKENS, [None, chosen, chosen]),
        "after": run.ranks(),
        "counted": await run.counted(),
        "hits": run.engine.counters.hits,
    }


def merged(checkpoint: Path, adapter: Path, folder: Path) -> str:
    """A checkpoint in whose weights the adapter is."""
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
    forked(lambda: make_adapter(folder / "other", "other", ALPHA).path, folder)
    return AdapterConfig(name="other", path=str(folder / "other"))


@pytest.fixture(scope="module", params=in_matrix(DEFAULT, QUICK[0]), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def facts(
    case: Case, adapter: AdapterConfig, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Facts:
    config = configured(case, checkpoints["llama"])
    model = config.model.model_copy(update={"adapters": (adapter,)})
    work = partial(serve_both, adapter.path)
    return in_own_process(work, config.model_copy(update={"model": model}), tmp_path_factory.mktemp("adapters"))


def test_a_batch_of_model_and_adapter_captures_and_compiles_nothing(facts: Facts) -> None:
    (before,), (after,) = facts["before"], facts["after"]
    assert (after["captures"], after["compiles"]) == (before["captures"], before["compiles"])
    assert facts["counted"] == after["served"]
    assert facts["hits"] == sum(after["served"].values())


def test_the_model_beside_an_adapter_answers_as_transformers(
    facts: Facts, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = [(ASKED[0], facts["answers"][0])]
    assert forked(partial(worst_gap, checkpoints["llama"], answers), tmp_path) < 0.15


def test_the_adapter_answers_as_transformers_with_its_weights(
    facts: Facts, adapter: AdapterConfig, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    whole = Path(forked(partial(merged, checkpoints["llama"], Path(adapter.path), tmp_path / "merged"), tmp_path))
    answers = list(zip(ASKED[1:], facts["answers"][1:], strict=True))
    assert forked(partial(worst_gap, whole, answers), tmp_path) < 0.15
    assert facts["answers"][1] != facts["answers"][0]
