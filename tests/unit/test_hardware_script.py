"""The script that tests the cards of a machine, with a replacement for Docker that records its commands."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = """#!/bin/sh
echo "$*" >> {folder}/commands
case "$*" in
  *" doctor "*) exit {doctor} ;;
  *" hardware-report "*) printf '{report}'; exit {trial} ;;
esac
"""


def run_script(
    folder: Path, *arguments: str, doctor: int = 0, trial: int = 0, report: str = "{}", image: str = "ours:1"
) -> tuple[int, str, list[str]]:
    """Return the exit code, the messages, and the commands of Docker. The working folder is `folder`."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "docker").write_text(DOCKER.format(folder=folder, doctor=doctor, trial=trial, report=report))
    (programs / "docker").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", **({"IMAGE": image} if image else {})}
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "hardware.sh"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    commands = folder / "commands"
    return done.returncode, done.stderr, commands.read_text().splitlines() if commands.exists() else []


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text("{}")
    return str(tmp_path / "llama")


def test_report_of_the_trial_is_written_to_a_file(tmp_path: Path, model: str) -> None:
    code, messages, (doctor, trial) = run_script(tmp_path, model, "--tensor-parallel", "2", trial=1)
    assert (code, (tmp_path / "hardware-report.json").read_text()) == (1, "{}")
    assert messages.endswith(f"Report: {tmp_path}/hardware-report.json\n")
    assert doctor.endswith(f"--volume {model}:/models/llama:ro ours:1 doctor --engine vllm")
    assert trial.endswith("--model /models/llama --folder /cache --output - --tensor-parallel 2")
    assert "--runtime=habana" in trial
    assert "--read-only --cap-drop=ALL" in trial


def test_image_is_built_if_none_is_named(tmp_path: Path, model: str) -> None:
    _, _, commands = run_script(tmp_path, model, image="")
    assert commands[0].startswith("build --target runtime-hpu --tag localhost/gaudi-runtime-hpu:hardware ")


def test_faults_that_the_doctor_finds_end_the_script(tmp_path: Path, model: str) -> None:
    code, messages, commands = run_script(tmp_path, model, doctor=1)
    assert (code, len(commands)) == (1, 1)
    assert "Fix them first." in messages


def test_trial_without_a_report_leaves_no_file(tmp_path: Path, model: str) -> None:
    code, messages, _ = run_script(tmp_path, model, report="")
    assert code == 1
    assert "wrote no report" in messages
    assert not (tmp_path / "hardware-report.json").exists()


@pytest.mark.parametrize("arguments", [(), ("/no/such/folder",)])
def test_missing_model_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, messages, commands = run_script(tmp_path, *arguments)
    assert (code, commands) == (2, [])
    assert "Pass the folder of a model" in messages
