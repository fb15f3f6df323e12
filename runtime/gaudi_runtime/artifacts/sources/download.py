"""Download of one file: resume the previous attempt, verify the checksum, then publish the file."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from gaudi_runtime.artifacts.sources.listing import Listing, RemoteFile
from gaudi_runtime.artifacts.sources.snapshots import bytes_of
from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.errors import DiskFull, HubUnreachable, ModelUnreadable

STEPS = 1000
TRIES = 2
"""A file that is wrong twice is wrong at its source."""
FULL = (errno.ENOSPC, errno.EDQUOT)

CHUNK_BYTES = 4 * 1024 * 1024


def matches_checksum(file: Path, stated: RemoteFile, progress: Callable[[], None]) -> bool:
    """Return True if a downloaded file has the checksum that its source states. Reads the whole `file`.

    `progress` is called every few MB and may raise to end the reading.
    """
    # If the source states no SHA-256, it states git's object ID, which is a SHA-1 of a header and the content.
    blob = f"blob {stated.size}\0".encode()
    digest = hashlib.sha256() if stated.sha256 else hashlib.sha1(blob, usedforsecurity=False)
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            progress()
    return digest.hexdigest() == (stated.sha256 or stated.blob_id)


class Progress:
    """The progress of downloads. `publish` receives the figures; `alive` is called for each piece and may raise."""

    def __init__(self, publish: Callable[[FetchProgress], None], alive: Callable[[], None]) -> None:
        self._publish, self.alive = publish, alive
        self._lock = threading.Lock()
        self._total = 0
        self._waiting = False
        self.done = 0

    def begin(self, total: int, done: int) -> None:
        """Start with `done` of `total` bytes."""
        with self._lock:
            self._total, self.done = total, done
        self._publish(FetchProgress(done_bytes=done, total_bytes=total))

    def add(self, count: int) -> None:
        """Add received bytes. A negative number means that bytes were discarded."""
        self.alive()
        with self._lock:
            before, self.done = self.done, self.done + count
            done, total = self.done, self._total
        if total and before * STEPS // total != done * STEPS // total:
            self._publish(FetchProgress(done_bytes=done, total_bytes=total))

    def report_waiting(self, here: int) -> None:
        """Report that another process fetches the same files, of which `here` bytes are on disk."""
        # Only a changed number is published, because each report restarts the stall clock. If the other process stalls,
        # this process must count as stalled, too.
        if here != self.done or not self._waiting:
            self.done, self._waiting = here, True
            self._publish(FetchProgress(done_bytes=here, waiting=True))


class Source(Protocol):
    """A source of downloads: one repository or prefix at one revision. Its errors are RuntimeStartErrors."""

    @property
    def repo(self) -> str:
        """The name of the source; its folder on disk is named after it."""

    @property
    def revision(self) -> str:
        """The branch, tag or commit."""

    def list_files(self) -> Listing:
        """Return the current files of the revision with sizes and checksums, and an ID of exactly these files.

        Raises HubUnreachable if a retry may help.
        """

    def open_file(self, commit: str, path: str, offset: int) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """Return the bytes of one file from about `offset`, and the offset of the first byte.

        Raises as `listing` does.
        """


def download(source: Source, commit: str, file: RemoteFile, part: Path, target: Path, progress: Progress) -> None:
    """Download `file` of a source to `target`. Received bytes stay in `part` even if the download fails.

    Raises HubUnreachable if a retry may help, ModelUnreadable after two wrong checksums, DiskFull, or an error for a
    request that the hub rejects.
    """
    if bytes_of(target) == file.size:
        return
    for folder in (part.parent, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        with _translate_disk_full(file):
            _download_rest(source, commit, file, part, progress)
        if matches_checksum(part, file, progress.alive):
            part.replace(target)
            return
        progress.add(-file.size)
        part.unlink()
    raise ModelUnreadable(
        f"{file.path} of repository {source.repo} was downloaded {TRIES} times with a wrong checksum. "
        "Choose another revision, or contact the owner of the repository or mirror."
    )


def _download_rest(source: Source, commit: str, file: RemoteFile, part: Path, progress: Progress) -> None:
    """Append to `part` up to the expected size. If the server does not support ranges, start at the beginning."""
    with part.open("ab") as content:
        if content.tell() < file.size:
            with source.open_file(commit, file.path, content.tell()) as (start, pieces):
                progress.add(start - content.tell())
                content.seek(start)
                content.truncate()
                _write_pieces(pieces, content, file.size, progress)
        content.flush()
        os.fsync(content.fileno())
        here = content.tell()
        if here > file.size:
            content.truncate(0)
    if here != file.size:
        raise HubUnreachable(f"The download of {file.path} from {source.repo} ended after {here} of {file.size} bytes.")


def _write_pieces(pieces: Iterator[bytes], content: BinaryIO, size: int, progress: Progress) -> None:
    for piece in pieces:
        content.write(piece)
        progress.add(len(piece))
        if content.tell() > size:  # an endless answer must not fill the disk
            return


@contextmanager
def _translate_disk_full(file: RemoteFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(
            f"The disk became full while {file.path} was fetched. Free space, or use a larger volume. "
            "The received bytes are kept, and the next start continues from there."
        ) from error
