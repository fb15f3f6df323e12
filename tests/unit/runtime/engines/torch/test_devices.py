"""The memory budget and the threads of the CPU on which the torch engine runs."""

import pytest

from gaudi_runtime.contract.config import EngineConfig, EngineName
from gaudi_runtime.engines.host_cpu import thread_count
from gaudi_runtime.engines.torch.devices import CpuDevice
from gaudi_runtime.errors import DeviceOutOfMemory


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


def test_reservation_above_the_free_bytes_is_refused() -> None:
    device = ledger(100)
    device.reserve(60)
    with pytest.raises(DeviceOutOfMemory, match="41 bytes are needed, but only 40 of the"):
        device.reserve(41)
    assert device.memory().free == 40


@pytest.mark.parametrize(("mebibytes", "expected"), [(2, 1), (31, 1), (32, 2), (100, 4), (16_000, 8)])
def test_thread_count_grows_with_model_size_up_to_the_cores(mebibytes: int, expected: int) -> None:
    assert thread_count(mebibytes * 1024**2, cores=8) == expected
