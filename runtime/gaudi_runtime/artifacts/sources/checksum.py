"""Whether a fetched file is what the hub states: SHA-256 of large files, git's object id of the others."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from gaudi_runtime.artifacts.sources.listing import RemoteFile

CHUNK_BYTES = 4 * 1024 * 1024


def is_as_stated(file: Path, stated: RemoteFile, progress: Callable[[], None]) -> bool:
    """Reads `file` wholly, a few MB between two calls of `progress`, which may raise to end it."""
    digest = hashlib.sha256() if stated.sha256 else _git_digest(stated.size)
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
            progress()
    return digest.hexdigest() == (stated.sha256 or stated.blob_id)


def _git_digest(size: int) -> "hashlib._Hash":
    return hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
