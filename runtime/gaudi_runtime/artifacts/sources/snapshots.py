"""The folder of one repository on disk. A rename marks a snapshot as complete.

COMMIT/            a complete snapshot: one rename creates it, and no process writes into it
COMMIT.files       names, bytes and checksums of the snapshot's files, to check whether all of them still exist
COMMIT.use         locked by every process that reads the snapshot; its modification time is the last start
COMMIT.partial/    complete files with the expected checksum
COMMIT.parts/      incomplete files
refs/              for each branch or tag, the commit that was fetched last
lock, holder       the process that may write (lock.py)
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from gaudi_runtime.artifacts.lock import LOOK_SECONDS, WriteLock, hold_in_use_lock, lock_if_unused
from gaudi_runtime.artifacts.sources.listing import ListedFile, is_pinned_listing

UNFINISHED = (".partial", ".parts")


class _SnapshotFile(NamedTuple):
    """A file of a complete snapshot. The download has verified its checksum."""

    path: str
    size: int
    checksum: str


class SnapshotStore:
    """The snapshots of one repository below `root`. A `WriteLock` polls every `look_seconds`."""

    def __init__(self, root: Path, repo: str, look_seconds: float = LOOK_SECONDS) -> None:
        self.folder = root / repo.replace("/", "--")
        self.write_lock = WriteLock(self.folder, look_seconds)

    def snapshot_folder(self, commit: str) -> Path:
        """Return the folder of the complete files of `commit`."""
        return self.folder / commit

    def partial_folder(self, commit: str) -> Path:
        """Return the folder for complete files of `commit`, which is used until all files are complete."""
        return self.folder / f"{commit}.partial"

    def parts_folder(self, commit: str) -> Path:
        """Return the folder for incomplete files of `commit`."""
        return self.folder / f"{commit}.parts"

    def last_snapshot(self, revision: str) -> Path | None:
        """Return the last fetched snapshot of a branch or tag if it is complete; otherwise None."""
        ref = self._ref_file(revision)
        commit = ref.read_text() if ref.exists() else None
        return self.snapshot_folder(commit) if commit and self.is_complete(commit) else None

    def is_complete(self, commit: str) -> bool:
        """Return True if all files of a snapshot exist with all their bytes."""
        # Only sizes are compared: the download has already verified the checksums, and reading 100 GB a second time
        # takes minutes.
        files = self._read_file_list(commit)
        return bool(files) and all(
            snapshot_file_bytes(self.snapshot_folder(commit) / file.path) == file.size for file in files
        )

    def use_snapshot(self, commit: str) -> Path:
        """Return the snapshot and keep it from removal until this process ends."""
        hold_in_use_lock(self.folder / f"{commit}.use")
        return self.snapshot_folder(commit)

    def prepare_folders(self, commit: str) -> None:
        """Create the folders for the files of `commit`, and keep the files of an incomplete snapshot."""
        if self.snapshot_folder(commit).exists():
            shutil.rmtree(self.partial_folder(commit), ignore_errors=True)
            self.snapshot_folder(commit).rename(self.partial_folder(commit))
        self.partial_folder(commit).mkdir(exist_ok=True)

    def link_known_files(self, commit: str, files: Iterable[ListedFile]) -> None:
        """Link files of other complete snapshots that have the same size and checksum into the folder of `commit`.

        A file that cannot be linked is fetched.
        """
        others = [path.stem for path in self.folder.glob("*.files") if self.is_complete(path.stem)]
        known = {
            (file.size, file.checksum): self.snapshot_folder(other) / file.path
            for other in others
            for file in self._read_file_list(other)
        }
        for file in files:
            target = self.partial_folder(commit) / file.path
            if file.checksum and (source := known.get((file.size, file.checksum))):
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(OSError):  # it exists, or the volume has no links
                    target.hardlink_to(source)

    def publish_snapshot(self, commit: str, files: Iterable[ListedFile]) -> None:
        """Publish the snapshot after all its files are complete."""
        _write_atomically(
            self._file_list(commit), json.dumps([(file.path, file.size, file.checksum) for file in files])
        )
        self.partial_folder(commit).rename(self.snapshot_folder(commit))
        shutil.rmtree(self.parts_folder(commit), ignore_errors=True)

    def record_commit(self, revision: str, commit: str) -> None:
        """Record the current commit of a branch or tag."""
        if not is_pinned_listing(revision):
            self._ref_file(revision).parent.mkdir(exist_ok=True)
            _write_atomically(self._ref_file(revision), commit)

    def unfinished_bytes(self) -> int:
        """Return the bytes of snapshots that are not complete."""
        return sum(map(snapshot_bytes_below, self._unfinished_folders()))

    def drop_unfinished(self, keep: str) -> None:
        """Remove incomplete files of all commits except `keep`."""
        # No other process fetches these files, because this process has the lock.
        for folder in self._unfinished_folders():
            if folder not in (self.partial_folder(keep), self.parts_folder(keep)):
                shutil.rmtree(folder, ignore_errors=True)

    def drop_unused(self, keep: str, has_space: Callable[[], bool]) -> Iterator[str]:
        """Remove snapshots that no process reads, longest unused first, until `has_space` returns True.

        Yields the removed commits.
        """
        marks = [
            mark for mark in self.folder.glob("*.use") if mark.stem != keep and self.snapshot_folder(mark.stem).exists()
        ]
        for mark in sorted(marks, key=lambda mark: mark.stat().st_mtime):
            with lock_if_unused(mark) as unused:
                if not unused:
                    continue
                if has_space():
                    return
                self._file_list(mark.stem).unlink(missing_ok=True)
                shutil.rmtree(self.snapshot_folder(mark.stem), ignore_errors=True)
            yield mark.stem

    def _unfinished_folders(self) -> Iterator[Path]:
        return (folder for suffix in UNFINISHED for folder in self.folder.glob(f"*{suffix}"))

    def _read_file_list(self, commit: str) -> list[_SnapshotFile]:
        """Return the files of a published snapshot, or an empty list if the list cannot be read."""
        try:
            rows = json.loads(self._file_list(commit).read_text())
            return [_SnapshotFile(str(path), size, str(checksum)) for path, size, checksum in rows]
        except (OSError, TypeError, ValueError):
            return []

    def _file_list(self, commit: str) -> Path:
        return self.folder / f"{commit}.files"

    def _ref_file(self, revision: str) -> Path:
        return self.folder / "refs" / f"{quote(revision, safe='')}.ref"


def snapshot_bytes_below(folder: Path) -> int:
    """Return the bytes of all snapshots below `folder`, where linked files count once.

    Another process may move files away during the count.
    """
    files = (_stat_file(Path(directory) / name) for directory, _, names in os.walk(folder) for name in names)
    return sum({(file.st_dev, file.st_ino): file.st_size for file in files if file}.values())


def _write_atomically(file: Path, text: str) -> None:
    """Write the text atomically: the file has either the whole text or its old contents."""
    temporary_file = file.with_suffix(".new")
    with temporary_file.open("w") as content:
        content.write(text)
        content.flush()
        os.fsync(content.fileno())
    temporary_file.replace(file)


def snapshot_file_bytes(file: Path) -> int | None:
    """Return the bytes of a file of a snapshot; None if it does not exist."""
    found = _stat_file(file)
    return found.st_size if found else None


def _stat_file(file: Path) -> os.stat_result | None:
    try:
        return file.stat() if file.is_file() else None
    except FileNotFoundError:  # the process with the lock has just moved it
        return None
