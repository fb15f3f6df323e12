"""The cache of the local cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.cache import cache_dir, ensure_cached
from localcluster.images import archive
from localcluster.node.state import State, read_state
from localcluster.sandbox.processes import Identity


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gaudi-operator"


def test_cache_folder_is_read_from_the_environment(cache: Path) -> None:
    assert cache_dir() == cache


def test_entry_is_built_once() -> None:
    made = []
    for _ in range(2):
        folder = ensure_cached("thing", lambda draft: made.append((draft / "file").write_text("x")))
    assert len(made) == 1
    assert (folder / "file").read_text() == "x"


def test_incomplete_entry_is_built_again() -> None:
    def fail(draft: Path) -> None:
        (draft / "half").write_text("x")
        raise RuntimeError("out of disk")

    with pytest.raises(RuntimeError):
        ensure_cached("thing", fail)
    folder = ensure_cached("thing", lambda draft: (draft / "whole").touch())
    assert [file.name for file in folder.iterdir()] == ["whole"]


def test_state_reads_back_as_written(tmp_path: Path) -> None:
    state = State("demo", "node", 2, pid=11, started=22, ready=True)
    state.write(tmp_path)
    assert read_state(tmp_path) == state


def test_folder_without_a_state_file_returns_none(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None


def test_reused_pid_is_not_the_recorded_process() -> None:
    ours = Identity.of(os.getpid())
    assert ours.alive
    assert not Identity(ours.pid, ours.start_ticks + 1).alive


def test_zombie_process_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    identity = Identity.of(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not identity.alive
    child.communicate()


def test_health_of_a_crashed_cluster_names_the_remedy() -> None:
    assert State("demo", "node", 0, pid=1, started=-1, ready=True).health == (
        "crashed: `up` starts it again, `down` removes its remains"
    )


def test_images_of_the_same_files_are_equal(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"\0" * 100)
    images = []
    for name in ("first.tar", "second.tar"):
        archive.write_folder_image(tmp_path / name, "localhost/model:1", tmp_path / "model")
        images.append((tmp_path / name).read_bytes())
        os.utime(tmp_path / "model" / "weights", (1, 1))
    assert images[0] == images[1]
