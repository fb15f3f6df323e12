"""The doctor's probes on this machine, and on small programs that end in various ways."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_runtime.__main__ import app
from gaudi_runtime.doctor.probes import read_only_folders, run_trial


def trial(program: str, seconds: float = 60) -> tuple[str, dict[str, object]]:
    return run_trial([sys.executable, "-c", program], seconds)


def test_successful_trial_returns_its_last_line() -> None:
    assert trial("print('noise'); print('{\"cards\": []}')") == ("", {"cards": []})


def test_failed_trial_is_reported_by_its_last_line() -> None:
    assert trial("import no_such_module") == ("ModuleNotFoundError: No module named 'no_such_module'", {})


def test_library_that_fails_to_load_is_named_first() -> None:
    program = "print('WARNING Failed to import from vllm._C: libnuma.so.1'); raise AttributeError('no op')"
    assert trial(program) == ("Failed to import from vllm._C: libnuma.so.1", {})


def test_killed_trial_is_reported_by_its_exit_status() -> None:
    assert trial("import os, signal; os.kill(os.getpid(), signal.SIGILL)") == ("exit status -4", {})


def test_hanging_trial_is_killed_and_reported() -> None:
    assert trial("import threading; threading.Event().wait()", seconds=0.2) == ("it did not end within 0.2 s", {})


def test_folder_that_can_be_created_is_writable(tmp_path: Path) -> None:
    assert read_only_folders({"HF_HOME": str(tmp_path / "new" / "huggingface"), "TMPDIR": str(tmp_path)}) == ()


def test_folder_below_a_file_is_named_with_its_variable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert read_only_folders({"HF_HOME": f"{file}/x", "TMPDIR": str(tmp_path)}) == (f"HF_HOME={file}/x",)


def test_kernel_folder_is_not_writable() -> None:
    assert read_only_folders({"TMPDIR": "/proc/sys/kernel/new"}) == ("TMPDIR=/proc/sys/kernel/new",)


def test_this_machine_runs_the_torch_engine() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--engine", "torch"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[-1] == "Engine torch: everything that is needed was found."


def test_json_output_has_the_same_rows() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--engine", "sim", "--image-only", "--json"])
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["healthy"], found["engines"]) == (0, True, ["sim"])
    topics = {row["topic"]: sorted(row) for row in found["rows"]}
    assert topics["vllm"] == ["advice", "found", "neededBy", "state", "topic"]


@pytest.mark.parametrize("option", ["--engine=none", "--nonsense"])
def test_unknown_option_is_refused(option: str) -> None:
    assert CliRunner().invoke(app, ["doctor", option]).exit_code == 2
