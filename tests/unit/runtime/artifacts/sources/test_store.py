"""What a folder keeps of several commits, and what is counted of it while another process works in it."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources import store
from gaudi_runtime.artifacts.sources.listing import RemoteFile
from gaudi_runtime.artifacts.sources.store import Store

YOUNG, OLDEST, OLD, NEXT = (digit * 40 for digit in "abcd")


@pytest.fixture
def three(tmp_path: Path) -> Store:
    """Complete snapshots that nobody reads, of different ages."""
    found = Store(tmp_path, "tiny/model")
    found.folder.mkdir()
    for commit, days in ((YOUNG, 1), (OLDEST, 3), (OLD, 2)):
        found.reopen(commit)
        (found.partial(commit) / "config.json").write_text("{}")
        found.complete(commit, [RemoteFile("config.json", 2, "")])
        mark = found.folder / f"{commit}.use"
        mark.touch()
        used = mark.stat().st_mtime - days * 86_400
        os.utime(mark, (used, used))
    return found


def test_longest_unused_commits_go_until_there_is_room(three: Store) -> None:
    enough = iter((False, False, True))
    assert list(three.drop_unused(NEXT, lambda: next(enough))) == [OLDEST, OLD]
    assert {each.name for each in three.folder.glob(f"{OLDEST}*")} == {f"{OLDEST}.use"}
    assert three.is_whole(YOUNG)


def test_commit_that_is_read_stays_and_younger_ones_go(three: Store) -> None:
    with (three.folder / f"{OLDEST}.use").open() as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        assert list(three.drop_unused(NEXT, lambda: False)) == [OLD, YOUNG]
    assert three.is_whole(OLDEST)


def test_branch_with_a_slash_is_remembered(three: Store) -> None:
    three.remember("feature/x", OLD)
    assert three.known("feature/x") == three.snapshot(OLD)


def test_folder_moved_away_while_it_is_counted_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "model" / name).mkdir(parents=True)
        (tmp_path / "model" / name / "file").write_bytes(b"1")

    def gone_after_the_first(_: Path) -> int:
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        return 1

    monkeypatch.setattr(store, "bytes_of", gone_after_the_first)
    assert store.bytes_below(tmp_path / "model") == 1
