"""RuntimeConfigs of the vllm engine on a CPU, and the config.json of a model whose weights are not needed."""

import json
from pathlib import Path
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from tests.unit.runtime.knobs.configs import vllm_config

MIB, GIB = 2**20, 2**30
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
PARAMETERS = 2 * 32000 * 1024 + 8 * (4 * 1024 * 1024 + 3 * 1024 * 2048 + 2 * 1024) + 1024
"""The parameters of LLAMA: both embeddings, attention, MLP and two norms of each layer, and the last norm."""
BLOCK = 8 * 2 * 128 * 8 * 128 * 2
"""Bytes of a KV block of LLAMA: layers, keys and values, tokens, heads, head size, bfloat16."""


def checkpoint(folder: Path, **changes: Any) -> Path:
    """Write LLAMA with `changes` as config.json and an index of its weights to the folder, and return the folder."""
    (folder / "config.json").write_text(json.dumps(LLAMA | changes))
    index = {"metadata": {"total_size": 2 * PARAMETERS}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def cpu_config(
    folder: Path, memory: int | None = 4 * GIB, mode: str = "torchCompile", **sections: Any
) -> RuntimeConfig:
    """Return a configuration for the model of `folder` with blocks of 128 tokens within `memory` bytes."""
    engine = {"device": "cpu", "executionMode": mode, "deviceMemoryBytes": memory}
    return vllm_config(
        model={"path": str(folder), "dtype": "bfloat16"} | sections.pop("model", {}),
        engine=engine | sections.pop("engine", {}),
        limits={"blockSize": 128, "stepsByTokens": True} | sections.pop("limits", {}),
        **sections,
    )
