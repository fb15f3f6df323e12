"""File locks in a folder that several processes share, for one writer and many readers.

The locks are `flock` locks, so they end with their process. On a network volume, they work only as far as the volume
supports locks. See docs/how-to/model-sources.md.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from gaudi_runtime.errors import ConfigError
from gaudi_runtime.process.signals import raise_if_stopped

LOOK_SECONDS = 1.0
BUSY = (errno.EAGAIN, errno.EACCES)
"""Another process has the lock. Some network file systems report EACCES."""


class WriteLock:
    """The permission to write into `folder`. `begin` waits for it, polling every `look_seconds`."""

    def __init__(self, folder: Path, look_seconds: float = LOOK_SECONDS) -> None:
        self._folder, self._holder_file = folder, folder / "holder"
        self._look_seconds = look_seconds
        self._id = uuid4().hex

    @contextmanager
    def acquire(self, on_wait: Callable[[], None], stop: threading.Event) -> Iterator[None]:
        """Wait for the lock, calling `on_wait` at each poll.

        Raises Stopped, or ConfigError if the volume does not support locks.
        """
        with self._open_lock_file() as lock:
            while not _try_folder_lock(lock, self._folder):
                on_wait()
                stop.wait(self._look_seconds)
                raise_if_stopped(stop)
            self._write_holder()
            yield

    def check_exclusive(self) -> None:
        """Raise ConfigError if another process also has the lock, because the locks of the volume do not work."""
        if self._holder_file.read_text() != self._id:
            raise ConfigError(
                f"Another process writes into {self._folder}, although this process holds the lock of the folder. "
                "File locks on this volume work only within one node. Mount a volume whose locks work across nodes, "
                "or remove spec.model.cache."
            )

    def _write_holder(self) -> None:
        # The file is replaced by a new file, because this changes the folder. An NFS client that has just changed a
        # folder reads the folder from the server.
        temporary_file = self._folder / f"holder.{self._id}"
        temporary_file.write_text(self._id)
        temporary_file.replace(self._holder_file)

    def _open_lock_file(self) -> IO[str]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return (self._folder / "lock").open("a+")
        except OSError as error:
            raise ConfigError(
                f"The model cannot be fetched into {self._folder}: {error.strerror}. Mount a volume to which the user "
                "of the pod may write."
            ) from error


def hold_in_use_lock(file: Path) -> None:
    """Hold a shared lock on `file` until this process ends, to mark its snapshot or entry as in use.

    A volume that cannot be written or locked needs no mark, because nothing is removed there.
    """
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)  # never closed: it is released when the process ends
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(file)


@contextmanager
def lock_if_unused(file: Path) -> Iterator[bool]:
    """Check whether no process uses the entry of `file`. While the block runs, no process can begin to use it."""
    with file.open("a+") as lock_file:
        yield _try_folder_lock(lock_file, file.parent)


def try_lock(file: IO[str]) -> bool:
    """Acquire an exclusive lock on `file`. Return False if another process holds the lock.

    Raises OSError if the volume does not support locks.
    """
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            return False
        raise
    return True


def _try_folder_lock(file: IO[str], folder: Path) -> bool:
    try:
        return try_lock(file)
    except OSError as error:
        raise ConfigError(
            f"The volume of {folder} cannot lock files ({error.strerror}), so no pod can fetch a model into it. Mount "
            "a volume that supports file locks, or remove spec.model.cache."
        ) from error
