"""The doctor's probes on this machine."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaudi_runtime.__main__ import app
from gaudi_runtime.doctor.probes import probe_read_only_folders


def test_folder_that_can_be_created_is_writable(tmp_path: Path) -> None:
    assert probe_read_only_folders({"HF_HOME": str(tmp_path / "new" / "huggingface"), "TMPDIR": str(tmp_path)}) == ()


def test_folder_below_a_file_is_reported_with_its_variable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert probe_read_only_folders({"HF_HOME": f"{file}/x", "TMPDIR": str(tmp_path)}) == (f"HF_HOME={file}/x",)


def test_kernel_folder_is_not_writable() -> None:
    assert probe_read_only_folders({"TMPDIR": "/proc/sys/kernel/new"}) == ("TMPDIR=/proc/sys/kernel/new",)


def test_doctor_accepts_the_image_of_this_machine() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--engine", "vllm", "--image-only"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[-1] == "Engine vllm: all requirements are met."


def test_json_output_has_the_same_rows() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--engine", "sim", "--image-only", "--json"])
    found = json.loads(shown.stdout)
    assert (shown.exit_code, found["healthy"], found["engines"]) == (0, True, ["sim"])
    topics = {row["topic"]: sorted(row) for row in found["rows"]}
    assert topics["vllm"] == ["advice", "found", "neededBy", "state", "topic"]


@pytest.mark.parametrize("option", ["--engine=none", "--nonsense"])
def test_unknown_option_is_refused(option: str) -> None:
    assert CliRunner().invoke(app, ["doctor", option]).exit_code == 2
