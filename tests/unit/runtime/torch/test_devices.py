import os
from pathlib import Path

import pytest

from gaudi_runtime.contract.config import EngineConfig, EngineName
from gaudi_runtime.engines.torch.devices.cpu import CpuDevice, threads, usable_cores
from gaudi_runtime.errors import DeviceOutOfMemory

CORES = len(os.sched_getaffinity(0))


def ledger(nbytes: int) -> CpuDevice:
    return CpuDevice(EngineConfig(name=EngineName.TORCH, device_memory_bytes=nbytes))


def test_reserved_bytes_are_not_free() -> None:
    device = ledger(100)
    device.reserve(60)
    assert (device.memory().free, device.memory().total) == (40, 100)


def test_budget_can_be_used_to_the_last_byte() -> None:
    device = ledger(100)
    device.reserve(100)
    device.release(1)
    device.reserve(1)
    assert device.memory().free == 0


def test_one_byte_too_many_is_refused() -> None:
    device = ledger(100)
    device.reserve(60)
    with pytest.raises(DeviceOutOfMemory, match="41 bytes do not fit into 40 free bytes"):
        device.reserve(41)
    assert device.memory().free == 40


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", CORES), ("100000 100000", 1), ("50000 100000", 1), ("9900000 100000", CORES)],
)
def test_quota_of_the_container_bounds_the_threads(tmp_path: Path, quota: str, cores: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota + "\n")
    assert usable_cores(file) == cores


def test_without_a_quota_every_core_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "cpu.max") == CORES


@pytest.mark.parametrize(("mebibytes", "expected"), [(2, 1), (31, 1), (32, 2), (100, 4), (16_000, 8)])
def test_threads_grow_with_the_model_up_to_the_cores(mebibytes: int, expected: int) -> None:
    assert threads(mebibytes * 1024**2, cores=8) == expected
