"""The limits of a container, which never exceed the limits of the node."""

import os
from pathlib import Path

import pytest

from gaudi_runtime.process.cgroup import usable_cgroup_memory, usable_cores

CORES = len(os.sched_getaffinity(0))
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", CORES), ("100000 100000", 1), ("50000 100000", 1), ("9900000 100000", CORES)],
)
def test_cores_are_limited_by_the_quota_of_the_container(tmp_path: Path, quota: str, cores: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota + "\n")
    assert usable_cores(file) == cores


def test_all_cores_are_usable_without_a_quota(tmp_path: Path) -> None:
    assert usable_cores(tmp_path / "cpu.max") == CORES


@pytest.mark.parametrize(("limit", "memory"), [("max", MEMORY), ("1048576", 1024**2), (str(MEMORY + 1), MEMORY)])
def test_memory_is_limited_by_the_container(tmp_path: Path, limit: str, memory: int) -> None:
    file = tmp_path / "memory.max"
    file.write_text(limit + "\n")
    assert usable_cgroup_memory(file) == memory


def test_all_memory_is_usable_without_a_limit(tmp_path: Path) -> None:
    assert usable_cgroup_memory(tmp_path / "memory.max") == MEMORY
