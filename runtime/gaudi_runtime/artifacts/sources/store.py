"""The folder of one repository on disk, complete when a rename says so.

COMMIT/            a complete snapshot: it appears by one rename, and nothing is written into it
COMMIT.files       names and bytes of its files, so that a look tells whether all are still here
COMMIT.use         locked by every process that reads the snapshot; its time is that of the last start
COMMIT.partial/    files of it that are here and as stated
COMMIT.parts/      files of it that are not wholly here yet
refs/              for each branch or tag, the commit that was fetched last
lock, holder       whose turn it is to write (lock.py)
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from gaudi_runtime.artifacts.lock import LOOK_SECONDS, Turn, unused, use
from gaudi_runtime.artifacts.sources.listing import RemoteFile, is_pinned

UNFINISHED = (".partial", ".parts")


class Store:
    """The snapshots of one repository below `root`; `look_seconds` is how often a `Turn` looks."""

    def __init__(self, root: Path, repo: str, look_seconds: float = LOOK_SECONDS) -> None:
        self.folder = root / repo.replace("/", "--")
        self.turn = Turn(self.folder, look_seconds)

    def snapshot(self, commit: str) -> Path:
        """Where the complete files of `commit` are, once they are."""
        return self.folder / commit

    def partial(self, commit: str) -> Path:
        """Where its finished files wait for the others."""
        return self.folder / f"{commit}.partial"

    def parts(self, commit: str) -> Path:
        """Where its unfinished files are."""
        return self.folder / f"{commit}.parts"

    def known(self, revision: str) -> Path | None:
        """The complete snapshot that was fetched last of a branch or tag."""
        ref = self._ref(revision)
        commit = ref.read_text() if ref.exists() else None
        return self.snapshot(commit) if commit and self.is_whole(commit) else None

    def is_whole(self, commit: str) -> bool:
        """Whether all files of a snapshot are here with all their bytes."""
        # Bytes, not checksums: content was compared when it came, and to read 100 GB again takes minutes.
        try:
            stated = json.loads(self._stated(commit).read_text())
        except (OSError, ValueError):
            return False
        return all(bytes_of(self.snapshot(commit) / name) == size for name, size in stated.items())

    def use(self, commit: str) -> Path:
        """The snapshot, kept from now on until this process ends."""
        use(self.folder / f"{commit}.use")
        return self.snapshot(commit)

    def reopen(self, commit: str) -> None:
        """Make place for the files of `commit`; those of a snapshot that lost some are kept."""
        if self.snapshot(commit).exists():
            shutil.rmtree(self.partial(commit), ignore_errors=True)
            self.snapshot(commit).rename(self.partial(commit))
        self.partial(commit).mkdir(exist_ok=True)

    def complete(self, commit: str, files: Iterable[RemoteFile]) -> None:
        """All files are here: show them as a snapshot."""
        _write(self._stated(commit), json.dumps({file.path: file.size for file in files}))
        self.partial(commit).rename(self.snapshot(commit))
        shutil.rmtree(self.parts(commit), ignore_errors=True)

    def remember(self, revision: str, commit: str) -> None:
        """`revision` is `commit` now."""
        if not is_pinned(revision):
            self._ref(revision).parent.mkdir(exist_ok=True)
            _write(self._ref(revision), commit)

    def bytes_here(self) -> int:
        """Bytes of snapshots that are not complete yet."""
        return sum(map(bytes_below, self._unfinished()))

    def drop_unfinished(self, but: str) -> None:
        """Remove what fetches of other commits left."""
        # The process with the lock knows that none of them is running.
        for folder in self._unfinished():
            if folder not in (self.partial(but), self.parts(but)):
                shutil.rmtree(folder, ignore_errors=True)

    def drop_unused(self, but: str, enough: Callable[[], bool]) -> Iterator[str]:
        """Remove snapshots that no process reads until there is `enough` room, the longest unused first.

        Gives the commits that were removed.
        """
        marks = [mark for mark in self.folder.glob("*.use") if mark.stem != but and self.snapshot(mark.stem).exists()]
        for mark in sorted(marks, key=lambda each: each.stat().st_mtime):
            with unused(mark) as free:
                if not free:
                    continue
                if enough():
                    return
                self._stated(mark.stem).unlink(missing_ok=True)
                shutil.rmtree(self.snapshot(mark.stem), ignore_errors=True)
            yield mark.stem

    def _unfinished(self) -> Iterator[Path]:
        return (each for end in UNFINISHED for each in self.folder.glob(f"*{end}"))

    def _stated(self, commit: str) -> Path:
        return self.folder / f"{commit}.files"

    def _ref(self, revision: str) -> Path:
        return self.folder / "refs" / f"{quote(revision, safe='')}.ref"


def bytes_below(folder: Path) -> int:
    """Bytes of all files below `folder`, which another process may move away meanwhile."""
    return sum(bytes_of(Path(place) / name) or 0 for place, _, names in os.walk(folder) for name in names)


def _write(file: Path, text: str) -> None:
    """At once or not at all."""
    fresh = file.with_suffix(".new")
    with fresh.open("w") as content:
        content.write(text)
        content.flush()
        os.fsync(content.fileno())
    fresh.replace(file)


def bytes_of(file: Path) -> int | None:
    """Bytes of a file; None where there is none."""
    try:
        return file.stat().st_size if file.is_file() else None
    except FileNotFoundError:  # the process with the turn has just moved it away
        return None
