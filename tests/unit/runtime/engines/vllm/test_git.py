"""Images without git: at its start, the plugin runs git to read its revision (start_errors.py, launch.py)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.launch import create_git_stub


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The only folder in PATH. It has no git."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "false").symlink_to(str(shutil.which("false")))
    return folder


def test_missing_git_is_replaced_by_a_failing_program(programs: Path, tmp_path: Path) -> None:
    environment = create_git_stub(tmp_path, {"PATH": str(programs)})
    done = subprocess.run(["git", "rev-parse", "HEAD"], env=environment, check=False)
    assert done.returncode == 1


def test_installed_git_is_used(programs: Path, tmp_path: Path) -> None:
    (programs / "git").symlink_to(programs / "false")
    assert create_git_stub(tmp_path, {"PATH": str(programs)}) == {}


def test_replacement_for_git_is_the_last_folder_in_path(programs: Path, tmp_path: Path) -> None:
    path = create_git_stub(tmp_path, {"PATH": str(programs)})["PATH"]
    assert path.split(os.pathsep) == [str(programs), str(tmp_path)]
