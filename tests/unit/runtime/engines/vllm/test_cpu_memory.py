"""The memory of a model on a CPU is computed from its config.json before anything is loaded."""

from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.memory import forecast_cpu_memory
from gaudi_runtime.errors import ConfigError, ModelNotFound, PlanImpossible, UnsupportedModel
from tests.unit.runtime.engines.vllm.configs import BLOCK, GIB, MIB, PARAMETERS, checkpoint, cpu_config


def test_memory_after_weights_is_split_and_filled_with_blocks(tmp_path: Path) -> None:
    memory = forecast_cpu_memory(cpu_config(checkpoint(tmp_path), limits={"maxNumSeqs": 4096}))
    assert memory.split.free == 4 * GIB - 2 * PARAMETERS
    assert (memory.total_bytes, memory.block_bytes) == (4 * GIB, BLOCK)
    assert memory.blocks == memory.split.kv_cache // BLOCK


def test_two_cards_share_weights_and_cache(tmp_path: Path) -> None:
    model = checkpoint(tmp_path)
    half = forecast_cpu_memory(cpu_config(model, parallelism={"tensor": 2}))
    assert half.block_bytes == BLOCK // 2
    assert half.split.free > forecast_cpu_memory(cpu_config(model)).split.free


def test_float32_doubles_the_bytes_of_weights_and_blocks(tmp_path: Path) -> None:
    memory = forecast_cpu_memory(cpu_config(checkpoint(tmp_path), model={"dtype": "float32"}))
    assert (memory.total_bytes - memory.split.free, memory.block_bytes) == (4 * PARAMETERS, 2 * BLOCK)


def test_model_above_the_memory_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(PlanImpossible) as refused:
        forecast_cpu_memory(cpu_config(checkpoint(tmp_path), memory=256 * MIB))
    assert str(refused.value) == (
        "The weights take 285 MiB, but engine.deviceMemoryBytes is 256 MiB. "
        "Give the pod more memory, or choose a smaller model."
    )


def test_cache_without_a_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanImpossible, match=f"one block takes {BLOCK} bytes"):
        forecast_cpu_memory(cpu_config(checkpoint(tmp_path), memory=2 * PARAMETERS + BLOCK))


def test_cache_smaller_than_the_longest_sequence_is_refused(tmp_path: Path) -> None:
    """vLLM reserves the first block, so 4096 tokens need 33 blocks of 128 tokens."""
    enough = round((2 * PARAMETERS + 33 * BLOCK / 0.9 / 0.9) + MIB)
    model = checkpoint(tmp_path)
    assert forecast_cpu_memory(cpu_config(model, memory=enough)).blocks == 33
    with pytest.raises(PlanImpossible) as refused:
        forecast_cpu_memory(cpu_config(model, memory=enough - BLOCK))
    assert str(refused.value) == (
        "The KV cache has room for 3968 tokens, but limits.maxModelLen is 4096. "
        "Give the pod more memory, or lower maxModelLen."
    )


def test_missing_budget_names_the_field(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^engine\.deviceMemoryBytes is missing"):
        forecast_cpu_memory(cpu_config(checkpoint(tmp_path), memory=None))


def test_folder_without_a_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="is missing, so the checkpoint is not complete"):
        forecast_cpu_memory(cpu_config(tmp_path))


def test_unknown_model_family_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"sizes the KV cache by config\.json"):
        forecast_cpu_memory(cpu_config(checkpoint(tmp_path, model_type="mamba")))


def test_quantized_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^model\.kvCacheDtype"):
        forecast_cpu_memory(cpu_config(checkpoint(tmp_path), model={"kvCacheDtype": "fp8_inc"}))
