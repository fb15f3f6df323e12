"""tests/plugin/environment.py without the plugin's source: skip outside of CI, fail in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.environment import ROOT


def run_environment(folder: Path, ci: str) -> subprocess.CompletedProcess[str]:
    """Run the module with a folder that has no plugin."""
    environment = {"PATH": os.environ["PATH"], "PLUGIN_SRC": str(folder), "CI": ci}
    command = [sys.executable, "-m", "tests.plugin.environment"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ci", ["", "false"])
def test_missing_source_skips_the_tests_outside_of_ci(tmp_path: Path, ci: str) -> None:
    done = run_environment(tmp_path, ci)
    assert (done.returncode, done.stdout) == (0, "exit 0\n")
    assert "set PLUGIN_SRC" in done.stderr


def test_missing_source_fails_in_ci(tmp_path: Path) -> None:
    done = run_environment(tmp_path, "true")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "set PLUGIN_SRC" in done.stderr
