"""The plugin on a machine without git. The plugin runs git to find its revision."""

import os
import shutil
from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.launch import create_git_stub


@pytest.fixture
def no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "false").symlink_to(str(shutil.which("false")))
    monkeypatch.setenv("PATH", str(folder))
    return tmp_path


def revision() -> str:
    from vllm_gaudi.extension.environment import _get_vllm_hash

    return str(_get_vllm_hash(None))


def test_plugin_fails_without_git(no_git: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'git'"):
        revision()


def test_plugin_reports_no_revision_with_our_replacement_of_git(no_git: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in create_git_stub(no_git, os.environ).items():
        monkeypatch.setenv(name, value)
    assert revision().startswith("Error")
