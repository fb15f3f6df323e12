"""Download of one file: resume the previous attempt, verify the checksum, then publish the file."""

import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from gaudi_runtime.artifacts.sources.listing import ListedFile, Listing
from gaudi_runtime.artifacts.sources.snapshots import snapshot_file_bytes
from gaudi_runtime.contract.report import FetchProgressReport
from gaudi_runtime.errors import DiskFull, HubUnreachable, ModelUnreadable

STEPS = 1000
TRIES = 2
"""A file that is wrong twice is wrong at its source."""
FULL = (errno.ENOSPC, errno.EDQUOT)

CHUNK_BYTES = 4 * 1024 * 1024


def download_matches_checksum(file: Path, expected: ListedFile, heartbeat: Callable[[], None]) -> bool:
    """Return True if a downloaded file has the checksum that its source states. Reads the whole `file`.

    `heartbeat` is called every few MB and may raise to end the reading.
    """
    # If the source states no SHA-256, it states git's object ID, which is a SHA-1 of a header and the content.
    blob_header = f"blob {expected.size}\0".encode()
    digest = hashlib.sha256() if expected.sha256 else hashlib.sha1(blob_header, usedforsecurity=False)
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            heartbeat()
    return digest.hexdigest() == expected.checksum


class Progress:
    """The progress of downloads. `publish` receives the figures; `heartbeat` is called for each piece and may raise."""

    def __init__(self, publish: Callable[[FetchProgressReport], None], heartbeat: Callable[[], None]) -> None:
        self._publish, self.heartbeat = publish, heartbeat
        self._lock = threading.Lock()
        self._total_bytes = 0
        self._waiting = False
        self.done_bytes = 0

    def begin(self, total_bytes: int, done_bytes: int) -> None:
        """Start with `done_bytes` of `total_bytes`."""
        with self._lock:
            self._total_bytes, self.done_bytes = total_bytes, done_bytes
        self._publish(FetchProgressReport(done_bytes=done_bytes, total_bytes=total_bytes))

    def add(self, added_bytes: int) -> None:
        """Add received bytes. A negative number means that bytes were discarded."""
        self.heartbeat()
        with self._lock:
            previous_bytes, self.done_bytes = self.done_bytes, self.done_bytes + added_bytes
            done_bytes, total_bytes = self.done_bytes, self._total_bytes
        if total_bytes and previous_bytes * STEPS // total_bytes != done_bytes * STEPS // total_bytes:
            self._publish(FetchProgressReport(done_bytes=done_bytes, total_bytes=total_bytes))

    def report_waiting(self, received_bytes: int) -> None:
        """Report that another process fetches the same files, of which `received_bytes` bytes are on disk."""
        # Only a changed number is published, because each report restarts the stall clock. If the other process stalls,
        # this process must count as stalled, too.
        if received_bytes != self.done_bytes or not self._waiting:
            self.done_bytes, self._waiting = received_bytes, True
            self._publish(FetchProgressReport(done_bytes=received_bytes, waiting=True))


class DownloadSource(Protocol):
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


def download(
    source: DownloadSource, commit: str, file: ListedFile, part_file: Path, target: Path, progress: Progress
) -> None:
    """Download `file` of a source to `target`. Received bytes stay in `part_file` even if the download fails.

    Raises HubUnreachable if a retry may help, ModelUnreadable after two wrong checksums, DiskFull, or an error for a
    request that the hub rejects.
    """
    if snapshot_file_bytes(target) == file.size:
        return
    for folder in (part_file.parent, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        with _translate_disk_full(file):
            _download_rest(source, commit, file, part_file, progress)
        if download_matches_checksum(part_file, file, progress.heartbeat):
            part_file.replace(target)
            return
        progress.add(-file.size)
        part_file.unlink()
    raise ModelUnreadable(
        f"{file.path} of repository {source.repo} was downloaded {TRIES} times with a wrong checksum. "
        "Choose another revision, or contact the owner of the repository or mirror."
    )


def _download_rest(source: DownloadSource, commit: str, file: ListedFile, part_file: Path, progress: Progress) -> None:
    """Append to `part_file` up to the expected size. If the server does not support ranges, start at the beginning."""
    with part_file.open("ab") as content:
        if content.tell() < file.size:
            with source.open_file(commit, file.path, content.tell()) as (start_offset, pieces):
                progress.add(start_offset - content.tell())
                content.seek(start_offset)
                content.truncate()
                _write_pieces(pieces, content, file.size, progress)
        content.flush()
        os.fsync(content.fileno())
        size = content.tell()
        if size > file.size:
            content.truncate(0)
    if size != file.size:
        raise HubUnreachable(f"The download of {file.path} from {source.repo} ended after {size} of {file.size} bytes.")


def _write_pieces(pieces: Iterator[bytes], content: BinaryIO, expected_size: int, progress: Progress) -> None:
    for piece in pieces:
        content.write(piece)
        progress.add(len(piece))
        if content.tell() > expected_size:  # an endless answer must not fill the disk
            return


@contextmanager
def _translate_disk_full(file: ListedFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(
            f"The disk became full while {file.path} was fetched. Free space, or use a larger volume. "
            "The received bytes are kept, and the next start continues from there."
        ) from error
