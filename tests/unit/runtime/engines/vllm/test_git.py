"""Images without git: the plugin asks it for a revision as it starts (start_errors.py, launch.py)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.launch import stand_in_for_git


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The only folder of programs: it has no git."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "false").symlink_to(str(shutil.which("false")))
    return folder


def test_without_git_something_refuses_in_its_place(programs: Path, tmp_path: Path) -> None:
    told = stand_in_for_git(tmp_path, {"PATH": str(programs)})
    asked = subprocess.run(["git", "rev-parse", "HEAD"], env=told, check=False)
    assert asked.returncode == 1


def test_git_that_is_there_is_left_alone(programs: Path, tmp_path: Path) -> None:
    (programs / "git").symlink_to(programs / "false")
    assert stand_in_for_git(tmp_path, {"PATH": str(programs)}) == {}


def test_stand_in_comes_last(programs: Path, tmp_path: Path) -> None:
    path = stand_in_for_git(tmp_path, {"PATH": str(programs)})["PATH"]
    assert path.split(os.pathsep) == [str(programs), str(tmp_path)]
