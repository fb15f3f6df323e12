"""The memory of the fullest rank: measured by the plugin on a card, or a budget on a CPU."""

from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.buckets.kv_blocks import DeviceBlocks
from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.vllm.memory import CardMemory, CpuBudget, create_rank_memory, describe_memory
from tests.unit.runtime.engines.vllm.configs import BLOCK, GIB, MIB, PARAMETERS, checkpoint, cpu_config
from tests.unit.runtime.knobs.configs import vllm_config

BLOCKS = {"kv_blocks": 1500, "block_size": 128}
CARD = {"free": 20 * GIB, "total": 96 * GIB, "margin": 8 * GIB, "kv_cache": 40 * GIB, **BLOCKS}
WEIGHTS = 2 * PARAMETERS
RANK = {"weights": WEIGHTS, "kv_cache": 100 * BLOCK, "kv_blocks": 100, "block_size": 128}


def card(*changes: dict[str, int]) -> CardMemory:
    memory = CardMemory()
    memory.store_profile([CARD | each for each in changes or ({},)])
    return memory


def ledger(folder: Path, *changes: dict[str, int]) -> CpuBudget:
    memory = CpuBudget(cpu_config(checkpoint(folder)))
    memory.choose_kv_cache_size()
    memory.store_profile([RANK | each for each in changes or ({},)])
    return memory


def test_device_selects_the_kind_of_memory(tmp_path: Path) -> None:
    assert isinstance(create_rank_memory(vllm_config()), CardMemory)
    assert isinstance(create_rank_memory(cpu_config(tmp_path)), CpuBudget)


def test_no_cache_size_is_set_on_a_card() -> None:
    assert create_rank_memory(vllm_config()).choose_kv_cache_size() is None


def test_graphs_on_a_card_get_free_memory_above_the_margin() -> None:
    split, blocks = card().split_and_blocks()
    assert (split.graphs, split.kv_cache, split.margin) == (12 * GIB, 40 * GIB, 8 * GIB)
    assert blocks == DeviceBlocks(1500, 128, 128)


@pytest.mark.parametrize(
    ("engine", "device"),
    [
        ({"device": "hpu", "card": "gaudi2"}, "a gaudi2 card has about 94.62 GiB"),
        ({"device": "cpu", "deviceMemoryBytes": 4 * GIB}, "deviceMemory is 4 GiB"),
        ({"device": "hpu", "card": "of the future"}, None),
    ],
    ids=["card", "cpu", "unknown card"],
)
def test_known_figures_name_weight_files_and_device_memory(
    tmp_path: Path, engine: dict[str, Any], device: str | None
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").write_bytes(bytes(3 * MIB))
    config = vllm_config(engine=engine, model={"path": str(tmp_path)}, parallelism={"tensor": 2})
    assert describe_memory(config) == " and ".join(filter(None, ("the weight files have 6 MiB for 2 ranks", device)))


def test_figures_without_weight_files_are_empty(tmp_path: Path) -> None:
    assert describe_memory(vllm_config(engine={"card": None}, model={"path": str(tmp_path / "missing")})) == ""


def test_hybrid_model_has_the_block_sizes_of_the_plugin() -> None:
    hybrid = {"block_size": 768, "decode_block_size": 128, "bounded": False, "query_step": 256}
    assert card(hybrid).split_and_blocks()[1] == DeviceBlocks(1500, 768, 128, bounded=False, query_step=256)


@pytest.mark.parametrize("free", [0, 5 * GIB, 8 * GIB, 50 * GIB])
def test_parts_of_the_split_add_up_to_free_memory(free: int) -> None:
    split, _ = card({"free": free}).split_and_blocks()
    assert split.free == split.usable + split.margin
    assert split.usable == split.graphs + split.kv_cache
    assert split.graphs >= 0


def test_split_on_cards_uses_least_memory_and_fewest_blocks() -> None:
    split, blocks = card({"kv_blocks": 1400}, {"free": 10 * GIB}).split_and_blocks()
    assert (split.graphs, blocks.count) == (2 * GIB, 1400)


def test_free_memory_on_cards_is_the_least_of_all_ranks() -> None:
    answers = [{"free": 9, "total": 96}, {"free": 7, "total": 96}]
    assert card().current_memory(answers) == DeviceMemory(free=7, total=96)


@pytest.mark.parametrize(
    ("limits", "blocks"),
    [
        ({"maxNumSeqs": 4, "maxModelLen": 1000}, 4 * 8 + 1),
        ({"maxNumSeqs": 4, "maxModelLen": 1000, "prefixCaching": True}, None),
        ({"maxNumSeqs": 4096}, None),
    ],
    ids=["what sequences can fill, and vLLM's own block", "all, for prefixes", "all, for sequences could fill more"],
)
def test_cpu_cache_is_limited_to_blocks_that_sequences_can_fill(
    tmp_path: Path, limits: dict[str, Any], blocks: int | None
) -> None:
    cache_bytes = CpuBudget(cpu_config(checkpoint(tmp_path), limits=limits)).choose_kv_cache_size()
    left = int(int((4 * GIB - WEIGHTS) * 0.9) * 0.9)
    assert cache_bytes == BLOCK * (blocks or left // BLOCK)


def test_cpu_split_has_the_real_cache_and_adds_up(tmp_path: Path) -> None:
    split, blocks = ledger(tmp_path).split_and_blocks()
    assert (split.free, split.kv_cache, blocks.count) == (4 * GIB - WEIGHTS, 100 * BLOCK, 100)
    assert split.usable == split.graphs + split.kv_cache
    assert split.free == split.usable + split.margin


def test_graphs_on_a_cpu_get_memory_left_by_the_cache(tmp_path: Path) -> None:
    memory = ledger(tmp_path)
    split, _ = memory.split_and_blocks()
    assert split.graphs == int((4 * GIB - WEIGHTS) * 0.9) - 100 * BLOCK
    assert memory.current_memory([{}]).free - split.margin == split.graphs


def test_used_memory_on_a_cpu_is_weights_and_cache(tmp_path: Path) -> None:
    assert ledger(tmp_path).current_memory([{}]) == DeviceMemory(free=4 * GIB - WEIGHTS - 100 * BLOCK, total=4 * GIB)


def test_free_memory_on_a_cpu_is_never_negative(tmp_path: Path) -> None:
    assert ledger(tmp_path, {"kv_cache": 100 * GIB}).current_memory([{}]).free == 0
