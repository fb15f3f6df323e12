"""What is said and done where the plugin's source cannot be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.environment import ROOT


def asked(folder: Path, ci: str) -> subprocess.CompletedProcess[str]:
    """The environment of the tests, from a folder that has no plugin."""
    environment = {"PATH": os.environ["PATH"], "PLUGIN_SRC": str(folder), "CI": ci}
    command = [sys.executable, "-m", "tests.plugin.environment"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ci", ["", "false"])
def test_without_a_source_the_shell_ends_and_nothing_fails(tmp_path: Path, ci: str) -> None:
    done = asked(tmp_path, ci)
    assert (done.returncode, done.stdout) == (0, "exit 0\n")
    assert "set PLUGIN_SRC" in done.stderr


def test_in_ci_a_missing_source_is_a_failure(tmp_path: Path) -> None:
    done = asked(tmp_path, "true")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "set PLUGIN_SRC" in done.stderr
