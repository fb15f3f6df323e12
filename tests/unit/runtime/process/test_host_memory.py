"""The host memory that a stage takes."""

import logging
import mmap

import pytest

from gaudi_runtime.process.host_memory import host_memory, host_memory_line, log_stage_cost


def test_stage_is_logged_with_seconds_and_bytes(caplog: pytest.LogCaptureFixture) -> None:
    moments, bytes_then = iter((10.0, 22.34)), iter((2**30, 3 * 2**30))
    with (
        caplog.at_level(logging.INFO),
        log_stage_cost("Loading the model", lambda: next(moments), lambda: next(bytes_then)),
    ):
        pass
    assert caplog.messages == ["Loading the model took 12.3 secs and 2 GiB of host memory"]


def test_freed_memory_is_logged_as_negative_bytes() -> None:
    assert host_memory_line("Warm-up", 1.0, -252 * 1024) == "Warm-up took 1.0 secs and -252 KiB of host memory"


def test_failed_stage_logs_no_cost(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(OSError, match="gone"), log_stage_cost("Loading the model"):
        raise OSError("gone")
    assert caplog.messages == []


def test_host_memory_includes_the_memory_of_this_process() -> None:
    before = host_memory()
    # Map new memory instead of allocating it, because an allocation may reuse memory of an earlier test that is still
    # resident.
    with mmap.mmap(-1, 64 * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        held.write(b"x" * len(held))
        assert host_memory() - before > 32 * 2**20
