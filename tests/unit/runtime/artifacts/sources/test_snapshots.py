"""Commits in one folder: which are removed for space, and the bytes counted while a process moves files."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.listing import ListedFile
from gaudi_runtime.artifacts.sources.snapshots import SnapshotStore, snapshot_bytes_below, snapshot_file_bytes

YOUNG, OLDEST, OLD, NEXT = (digit * 40 for digit in "abcd")


@pytest.fixture
def three(tmp_path: Path) -> SnapshotStore:
    """Complete snapshots of different ages, without readers."""
    found = SnapshotStore(tmp_path, "tiny/model")
    found.folder.mkdir()
    for commit, days in ((YOUNG, 1), (OLDEST, 3), (OLD, 2)):
        found.prepare_folders(commit)
        (found.partial_folder(commit) / "config.json").write_text("{}")
        found.publish_snapshot(commit, [ListedFile("config.json", 2, "")])
        mark = found.folder / f"{commit}.use"
        mark.touch()
        used = mark.stat().st_mtime - days * 86_400
        os.utime(mark, (used, used))
    return found


def test_least_recently_used_commits_are_removed_until_space_suffices(three: SnapshotStore) -> None:
    enough = iter((False, False, True))
    assert list(three.drop_unused(NEXT, lambda: next(enough))) == [OLDEST, OLD]
    assert {each.name for each in three.folder.glob(f"{OLDEST}*")} == {f"{OLDEST}.use"}
    assert three.is_complete(YOUNG)


def test_commit_with_a_reader_stays_and_newer_ones_are_removed(three: SnapshotStore) -> None:
    with (three.folder / f"{OLDEST}.use").open() as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        assert list(three.drop_unused(NEXT, lambda: False)) == [OLD, YOUNG]
    assert three.is_complete(OLDEST)


def test_branch_with_a_slash_is_stored_under_a_quoted_name(three: SnapshotStore) -> None:
    three.record_commit("feature/x", OLD)
    assert three.last_snapshot("feature/x") == three.snapshot_folder(OLD)
    assert (three.folder / "refs" / "feature%2Fx.ref").read_text() == OLD


def test_branch_with_an_incomplete_commit_is_unknown(three: SnapshotStore) -> None:
    three.record_commit("main", NEXT)
    assert three.last_snapshot("main") is None


def test_commit_to_be_fetched_is_not_removed(three: SnapshotStore) -> None:
    assert list(three.drop_unused(OLDEST, lambda: False)) == [OLD, YOUNG]


def test_use_mark_without_a_snapshot_is_ignored(three: SnapshotStore) -> None:
    (three.folder / f"{NEXT}.use").touch()
    assert list(three.drop_unused("", lambda: False)) == [OLDEST, OLD, YOUNG]


def test_snapshot_without_metadata_is_removed(three: SnapshotStore) -> None:
    (three.folder / f"{OLDEST}.files").unlink()
    assert list(three.drop_unused(NEXT, lambda: False)) == [OLDEST, OLD, YOUNG]


def test_reopened_snapshot_replaces_an_earlier_partial_folder(three: SnapshotStore) -> None:
    three.partial_folder(OLD).mkdir()
    (three.partial_folder(OLD) / "left").touch()
    three.prepare_folders(OLD)
    assert [each.name for each in three.partial_folder(OLD).iterdir()] == ["config.json"]


def test_size_of_a_folder_is_none(tmp_path: Path) -> None:
    assert snapshot_file_bytes(tmp_path) is None


def test_empty_file_counts_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert snapshot_bytes_below(tmp_path) == 0


def test_linked_file_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert snapshot_bytes_below(tmp_path) == 1


def test_folder_removed_during_the_count_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "model" / name).mkdir(parents=True)
        (tmp_path / "model" / name / "file").write_bytes(b"1")

    is_file = Path.is_file

    def remove_folder(file: Path) -> bool:
        found = is_file(file)
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        return found

    monkeypatch.setattr(Path, "is_file", remove_folder)
    assert snapshot_bytes_below(tmp_path / "model") == 0
