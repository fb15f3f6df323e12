"""`--version` and `--help` of the four commands, and invalid starts."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(sys.executable).parent
VERSION = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["version"]
COMMANDS = {
    "gaudi-plan": "gaudi-plan",
    "kubectl-gaudi": "kubectl gaudi",
    "gaudi-operator": "gaudi-operator",
    "gaudi-runtime": "gaudi-runtime",
}


def run(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Use an empty environment, because a developer may have set variables of the operator.
    return subprocess.run([FOLDER / command, *arguments], capture_output=True, text=True, timeout=120, env={})


@pytest.mark.parametrize(("command", "shown"), COMMANDS.items())
def test_version_is_that_of_the_package(command: str, shown: str) -> None:
    result = run(command, "--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{shown} {VERSION}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_exits_with_0(command: str) -> None:
    result = run(command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "usage" in result.stdout.lower()


def test_help_of_the_operator_lists_its_settings() -> None:
    result = run("gaudi-operator", "run", "--help")
    assert result.returncode == 0
    assert "--runtime-image=VALUE, GAUDI_OPERATOR_RUNTIME_IMAGE\n" in result.stdout
    assert "--kubeconfig=VALUE, KUBECONFIG\n" in result.stdout


def test_operator_without_an_image_names_the_option() -> None:
    result = run("gaudi-operator", "run")
    assert result.returncode == 1
    assert "GAUDI_OPERATOR_RUNTIME_IMAGE is missing: set it, or write --runtime-image=VALUE." in result.stderr


def test_operator_without_a_command_shows_its_usage() -> None:
    result = run("gaudi-operator")
    assert result.returncode == 1
    assert "Try 'gaudi-operator --help' for help." in result.stderr


def test_runtime_without_a_configuration_exits_with_one_sentence(tmp_path: Path) -> None:
    result = run("gaudi-runtime", "serve", "--config", str(tmp_path / "config.json"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"gaudi-runtime serve: there is no configuration at {tmp_path / 'config.json'}.")
    assert len(result.stderr.splitlines()) == 1
