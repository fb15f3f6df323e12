"""The recipe key changes with each relevant part of the configuration, but not with the plan."""

import json
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import (
    AdapterConfig,
    EngineConfig,
    EngineName,
    ExecutionMode,
    HubRepositoryConfig,
    KvCacheDtype,
    ModelConfig,
    QuantizationConfig,
    QuantizationMethod,
    RuntimeConfig,
)
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.engines.host_cpu import format_host_cpu
from gaudi_runtime.engines.recipe_key import HPU_CACHE, disk_recipe_key
from gaudi_runtime.engines.vllm import versions

X86 = "processor\t: 0\nmodel name\t: Xeon A\nflags\t\t: sse avx2\n\nprocessor\t: 1\nmodel name\t: Xeon A\n"


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a config.json, and the setting with which the Gaudi bridge caches recipes."""
    monkeypatch.setenv(HPU_CACHE, "/cache/recipes,false,16384")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return tmp_path


def config(folder: Path, **changes: dict[str, Any]) -> RuntimeConfig:
    whole = RuntimeConfig(
        model=ModelConfig(path=str(folder), served_names=("m",)),
        engine=EngineConfig(name=EngineName.VLLM, device="hpu", card="gaudi3"),
        limits=Limits(max_model_len=512, max_num_seqs=4, max_num_batched_tokens=512, block_size=128),
    )
    parts = {name: getattr(whole, name).model_copy(update=change) for name, change in changes.items()}
    return whole.model_copy(update=parts)


def key(folder: Path, software: str = "vllm 0.32", **changes: dict[str, Any]) -> RecipeKey | None:
    return disk_recipe_key(config(folder, **changes), software, keeps_files=True)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"dtype": "bfloat16"}},
        {"model": {"kv_cache_dtype": KvCacheDtype.FP8_INC}},
        {"model": {"quantization": QuantizationConfig(method=QuantizationMethod.FP8)}},
        {"model": {"adapters": (AdapterConfig(name="sql", path="/adapters/0"),)}},
        {"model": {"hub": HubRepositoryConfig(repo="a/b")}},
        {"parallelism": {"tensor": 2}},
        {"parallelism": {"pipeline": 2}},
        {"engine": {"card": "gaudi2"}},
        {"engine": {"execution_mode": ExecutionMode.LAZY}},
        {"engine": {"settings": {"VLLM_CONFIG_HIDDEN_LAYERS": "2"}}},
        {"engine": {"settings": {"RUNTIME_SCALE_PATCHING": "true"}}},
        {"engine": {"settings": {"VLLM_HPU_FORCE_CHANNEL_FP8": "true"}}},
        {"engine": {"settings": {"VLLM_DYNAMIC_KV_QUANT": "1"}}},
        {"limits": {"block_size": 256}},
        {"limits": {"contiguous_paged_attention": False}},
    ],
    ids=str,
)
def test_each_input_of_recipes_changes_the_key(checkpoint: Path, change: dict[str, dict[str, Any]]) -> None:
    assert key(checkpoint, **change) != key(checkpoint)


@pytest.mark.parametrize(
    "change",
    [
        {"bucketing": BucketPolicy(strategy=Strategy.LINEAR).model_dump()},
        {"limits": {"max_num_seqs": 8}},
        {"limits": {"max_model_len": 1024}},
        {"limits": {"max_num_batched_tokens": 256}},
        {"warmup": {"graph_memory_share": 0.3}},
        {"serving": {"drain_seconds": 1}},
        {"engine": {"settings": {"LOG_LEVEL_ALL": "4"}}},
        {"model": {"served_names": ("other",)}},
    ],
    ids=str,
)
def test_plan_does_not_change_the_key(checkpoint: Path, change: dict[str, dict[str, Any]]) -> None:
    assert key(checkpoint, **change) == key(checkpoint)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        (None, "none"),
        (
            QuantizationConfig(method=QuantizationMethod.INC, config_file="/models/größe.json"),
            '{"method":"inc","config_file":"/models/größe.json"}',
        ),
    ],
)
def test_key_names_number_formats_and_software(checkpoint: Path, asked: QuantizationConfig | None, part: str) -> None:
    found = key(checkpoint, model={"quantization": asked})
    assert found
    assert found.dtype == f"auto auto {part} blocks of 128 contiguous"
    assert found.software == "vllm 0.32 habana-torch-plugin of unknown release torchCompile None"


def test_release_of_the_software_changes_the_key(checkpoint: Path) -> None:
    assert key(checkpoint, "vllm 0.33") != key(checkpoint)


def test_release_of_the_plugin_changes_the_key(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    for release in ("", "1.0", "1.1"):
        installed = {"vllm-gaudi": release}
        monkeypatch.setattr(
            versions, "installed_version", lambda *names, found=installed: found.get(names[0], "0.30.0")
        )
        keys.append(versions.vllm_recipe_key(config(checkpoint)))
    assert len(set(keys)) == 3


def test_architecture_changes_the_key(checkpoint: Path) -> None:
    before = key(checkpoint)
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    assert key(checkpoint) != before


def test_commit_of_a_repository_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HPU_CACHE, "/cache/recipes")
    keys = []
    for commit in ("1" * 40, "2" * 40):
        (tmp_path / commit).mkdir()
        (tmp_path / commit / "config.json").write_text("{}")
        keys.append(key(tmp_path / commit, model={"hub": HubRepositoryConfig(repo="a/b")}))
    assert keys[0] != keys[1]


def test_bridge_without_recipe_cache_has_no_key(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HPU_CACHE)
    assert key(checkpoint) is None


def test_checkpoint_without_config_has_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HPU_CACHE, "/cache/recipes")
    assert key(tmp_path) is None


@pytest.mark.parametrize("keeps", [True, False])
def test_cpu_key_exists_only_if_the_engine_keeps_files(checkpoint: Path, keeps: bool) -> None:
    found = disk_recipe_key(config(checkpoint, engine={"device": "cpu"}), "vllm", keeps_files=keeps)
    assert (found is not None) is keeps


def test_digest_covers_the_whole_key(checkpoint: Path) -> None:
    one, other = key(checkpoint), key(checkpoint, engine={"card": "gaudi2"})
    assert one
    assert other
    assert len(one.digest) == 16
    assert one.digest != other.digest


@pytest.mark.parametrize(
    "other",
    [X86.replace("avx2", "avx2 avx512f"), X86.replace("Xeon A", "Xeon B")],
    ids=["instructions", "model"],
)
def test_instructions_and_model_change_the_processor_name(other: str) -> None:
    assert format_host_cpu(X86, "x86_64") != format_host_cpu(other, "x86_64")


def test_order_of_instructions_does_not_matter() -> None:
    assert format_host_cpu(X86, "x86_64") == format_host_cpu(X86.replace("sse avx2", "avx2 sse"), "x86_64")


def test_processor_unknown_to_the_kernel_has_a_name() -> None:
    assert format_host_cpu("", "riscv64").startswith("riscv64 of unknown model ")
