"""A small but real LoRA adapter for the tiny Llama."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from gaudi_runtime.contract.config import AdapterConfig

HIDDEN, RANK, LAYERS = 128, 8, 2


def make_adapter(folder: Path, name: str, alpha: int = 64) -> AdapterConfig:
    """Write an adapter that changes the queries of every layer, so that answers with and without the adapter differ.

    The weights of the adapter are scaled by `alpha` divided by RANK.
    """
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{side}.weight": torch.randn(
            shape, generator=generator
        )
        for layer in range(LAYERS)
        for side, shape in {"A": (RANK, HIDDEN), "B": (HIDDEN, RANK)}.items()
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": alpha,
        "target_modules": ["q_proj"],
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return AdapterConfig(name=name, path=str(folder))
