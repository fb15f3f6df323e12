"""The doctor's probes, on this machine and on small programs that end as trials may end."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_runtime.__main__ import app
from gaudi_runtime.doctor.probes import read_only_folders, run_trial


def trial(program: str, seconds: float = 60) -> tuple[str, dict[str, object]]:
    return run_trial([sys.executable, "-c", program], seconds)


def test_a_trial_that_succeeds_answers_with_its_last_line() -> None:
    assert trial("print('noise'); print('{\"cards\": []}')") == ("", {"cards": []})


def test_a_trial_that_fails_is_told_by_its_last_words() -> None:
    assert trial("import no_such_module") == ("ModuleNotFoundError: No module named 'no_such_module'", {})


def test_library_that_does_not_load_is_named_before_what_follows() -> None:
    program = "print('WARNING Failed to import from vllm._C: libnuma.so.1'); raise AttributeError('no op')"
    assert trial(program) == ("Failed to import from vllm._C: libnuma.so.1", {})


def test_trial_that_is_killed_is_told_by_its_exit_status() -> None:
    assert trial("import os, signal; os.kill(os.getpid(), signal.SIGILL)") == ("exit status -4", {})


def test_a_trial_that_hangs_is_ended_and_told() -> None:
    assert trial("import threading; threading.Event().wait()", seconds=0.2) == ("it did not end within 0.2 s", {})


def test_a_folder_that_can_be_made_counts_as_writable(tmp_path: Path) -> None:
    assert read_only_folders({"HF_HOME": str(tmp_path / "new" / "huggingface"), "TMPDIR": str(tmp_path)}) == ()


def test_a_folder_below_a_file_is_named_with_its_variable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert read_only_folders({"HF_HOME": f"{file}/x", "TMPDIR": str(tmp_path)}) == (f"HF_HOME={file}/x",)


def test_a_folder_of_the_kernel_cannot_be_written() -> None:
    assert read_only_folders({"TMPDIR": "/proc/sys/kernel/new"}) == ("TMPDIR=/proc/sys/kernel/new",)


def test_this_machine_runs_the_torch_engine() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--engine", "torch"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[-1] == "Engine torch: everything that is needed was found."


def test_the_answer_for_programs_has_the_same_rows() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--engine", "sim", "--image-only", "--json"])
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["healthy"], found["engines"]) == (0, True, ["sim"])
    topics = {row["topic"]: sorted(row) for row in found["rows"]}
    assert topics["vllm"] == ["advice", "found", "neededBy", "state", "topic"]


@pytest.mark.parametrize("option", ["--engine=none", "--nonsense"])
def test_an_unknown_option_is_refused(option: str) -> None:
    assert CliRunner().invoke(app, ["doctor", option]).exit_code == 2
