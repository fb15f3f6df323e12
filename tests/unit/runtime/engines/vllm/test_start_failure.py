"""The file of a worker that cannot start: the first failure of all ranks."""

import subprocess
import sys
from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.start_errors import MOST_KEPT_CHARACTERS, read_failure, recorded

RANK = """
import sys
from gaudi_runtime.engines.vllm.start_errors import recorded
sys.stdin.readline()
with recorded(sys.argv[1], "the model was loaded"):
    raise ValueError(sys.argv[2])
"""


def fail(file: Path, step: str, error: BaseException) -> None:
    with pytest.raises(type(error)), recorded(str(file), step):
        raise error


def test_no_file_is_written_without_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    with recorded(str(file), "the device was opened"):
        pass
    assert read_failure(file) is None


def test_step_kind_and_message_are_kept_and_error_propagates(tmp_path: Path) -> None:
    fail(tmp_path / "failure.json", "memory was measured", MemoryError("no room"))
    failure = read_failure(tmp_path / "failure.json")
    assert failure is not None
    assert (failure.step, failure.kind, failure.message) == ("memory was measured", "MemoryError", "no room")


def test_first_failure_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    fail(file, "the device was opened", ValueError("first"))
    fail(file, "the model was loaded", ValueError("second"))
    failure = read_failure(file)
    assert failure is not None
    assert failure.message == "first"


def test_exiting_worker_also_leaves_its_reason(tmp_path: Path) -> None:
    fail(tmp_path / "failure.json", "the model was loaded", SystemExit("stop"))
    assert read_failure(tmp_path / "failure.json") is not None


def test_long_message_is_cut(tmp_path: Path) -> None:
    fail(tmp_path / "failure.json", "the model was loaded", ValueError("x" * 100_000))
    failure = read_failure(tmp_path / "failure.json")
    assert failure is not None
    assert len(failure.message) == MOST_KEPT_CHARACTERS


def test_concurrent_failures_keep_exactly_one_complete_record(tmp_path: Path) -> None:
    """Real processes, which are released at the same time."""
    file = tmp_path / "failure.json"
    command = [sys.executable, "-c", RANK, str(file)]
    ranks = [
        subprocess.Popen([*command, f"rank {rank}"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for rank in range(3)
    ]
    for each in ranks:
        each.communicate(b"\n")
    failure = read_failure(file)
    assert failure is not None
    assert failure.message in {f"rank {rank}" for rank in range(3)}
    assert list(tmp_path.iterdir()) == [file]
