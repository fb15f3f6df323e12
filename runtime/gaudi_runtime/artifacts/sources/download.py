"""Fetch one file: go on where the last try ended, compare with the checksum that the hub states, then show it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gaudi_runtime.artifacts.sources.checksum import is_as_stated
from gaudi_runtime.artifacts.sources.listing import RemoteFile
from gaudi_runtime.artifacts.sources.progress import Progress
from gaudi_runtime.artifacts.sources.source import Source
from gaudi_runtime.errors import DiskFull, HubUnreachable, ModelUnreadable

TRIES = 2
"""A file that is wrong twice is wrong at its source."""
FULL = (errno.ENOSPC, errno.EDQUOT)


def download(source: Source, commit: str, file: RemoteFile, part: Path, target: Path, progress: Progress) -> None:
    """`target` holds the file afterwards; `part` keeps what came, whatever happens.

    Raises HubUnreachable for what another try may mend, ModelUnreadable for content that is not as stated twice,
    DiskFull, or what the hub refuses.
    """
    if bytes_of(target) == file.size:
        return
    for folder in (part.parent, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        with _disk_full_as_sentence(file):
            _append(source, commit, file, part, progress)
        if is_as_stated(part, file, progress.alive):
            part.replace(target)
            return
        progress.add(-file.size)
        part.unlink()
    raise ModelUnreadable(
        f"{file.path} of repository {source.repo} came {TRIES} times with another checksum than the hub states: "
        "choose another revision, or ask the owner of the repository or of the mirror."
    )


def bytes_of(file: Path) -> int | None:
    """Size in bytes, None when it is not there."""
    return file.stat().st_size if file.exists() else None


def _append(source: Source, commit: str, file: RemoteFile, part: Path, progress: Progress) -> None:
    """Bring `part` to the stated size. A server without ranges begins anew, and so does `part` then."""
    with part.open("ab") as content:
        if content.tell() < file.size:
            with source.content(commit, file.path, content.tell()) as (start, pieces):
                progress.add(start - content.tell())
                content.seek(start)
                content.truncate()
                _write(pieces, content, file.size, progress)
        content.flush()
        os.fsync(content.fileno())
        here = content.tell()
        if here > file.size:
            content.truncate(0)
    if here != file.size:
        raise HubUnreachable(f"{file.path} of repository {source.repo} came with {here} of {file.size} bytes.")


def _write(pieces: Iterator[bytes], content: BinaryIO, size: int, progress: Progress) -> None:
    """Stops behind `size`: an answer without end must not fill the disk."""
    for piece in pieces:
        content.write(piece)
        progress.add(len(piece))
        if content.tell() > size:
            return


@contextmanager
def _disk_full_as_sentence(file: RemoteFile) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(
            f"The disk became full while {file.path} was fetched: free space or use a larger volume; "
            "what came is kept and the next start goes on there."
        ) from error
