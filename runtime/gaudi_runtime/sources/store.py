"""The folder of one repository on disk, complete when a rename says so, and its lock.

COMMIT/            a complete snapshot: it appears by one rename and never changes
COMMIT.partial/    files of it that are here and as stated
COMMIT.parts/      files of it that are not wholly here yet
refs/              for each branch or tag, the commit that was fetched last
lock
"""

import fcntl
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from gaudi_runtime.errors import ConfigError
from gaudi_runtime.sources.listing import is_pinned
from gaudi_runtime.warmup.stop import raise_if_stopped

LOOK_SECONDS = 1.0


class Store:
    """The snapshots of one repository below `root`."""

    def __init__(self, root: Path, repo: str) -> None:
        self.folder = root / repo.replace("/", "--")

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
        """The complete snapshot of a commit, or the one that was fetched last of a branch or tag."""
        ref = self._ref(revision)
        commit = revision if is_pinned(revision) else ref.read_text() if ref.exists() else None
        return self.snapshot(commit) if commit and self.snapshot(commit).is_dir() else None

    def complete(self, commit: str) -> Path:
        """All files are here: show them as a snapshot."""
        self.partial(commit).rename(self.snapshot(commit))
        shutil.rmtree(self.parts(commit), ignore_errors=True)
        return self.snapshot(commit)

    def remember(self, revision: str, commit: str) -> None:
        """`revision` is `commit` now."""
        if is_pinned(revision):
            return
        ref = self._ref(revision)
        ref.parent.mkdir(exist_ok=True)
        fresh = ref.with_suffix(".new")
        fresh.write_text(commit)
        fresh.replace(ref)

    def bytes_here(self) -> int:
        """Bytes of snapshots that are not complete yet."""
        pending = (*self.folder.glob("*.partial"), *self.folder.glob("*.parts"))
        return sum(_size(file) for folder in pending for file in folder.rglob("*"))

    @contextmanager
    def locked(self, waiting: Callable[[], None], stop: threading.Event) -> Iterator[None]:
        """One process at a time; `waiting` is called each second while another one has the lock.

        The lock ends with its process, so none is left behind. Raises Stopped once `stop` is set.
        """
        with self._lock_file() as lock:
            while not _try_lock(lock.fileno()):
                waiting()
                stop.wait(LOOK_SECONDS)
                raise_if_stopped(stop)
            yield

    def _lock_file(self) -> IO[str]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return (self.folder / "lock").open("w")
        except OSError as error:
            raise ConfigError(
                f"Nothing can be fetched into {self.folder} ({error.strerror}): mount a writable volume there."
            ) from error

    def _ref(self, revision: str) -> Path:
        return self.folder / "refs" / f"{quote(revision, safe='')}.ref"


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size(file: Path) -> int:
    """0 for what the process with the lock has just moved away."""
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:
        return 0
