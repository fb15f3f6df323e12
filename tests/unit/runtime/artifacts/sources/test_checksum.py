"""A file is accepted only if it matches the checksum of its source."""

import hashlib
import os
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.download import CHUNK_BYTES, is_as_stated
from gaudi_runtime.artifacts.sources.listing import RemoteFile

CONTENT = b'{"model_type": "llama"}'


def checksum_of(*, sha256: bool) -> RemoteFile:
    """Return a hub's checksum: SHA-256 for large files, and only git's object id for small ones."""
    blob = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT, usedforsecurity=False).hexdigest()
    digest = hashlib.sha256(CONTENT).hexdigest() if sha256 else None
    return RemoteFile(path="config.json", size=len(CONTENT), blob_id=blob, sha256=digest)


def test_large_file_reports_progress_every_few_megabytes(tmp_path: Path) -> None:
    file, seen = tmp_path / "large", list[None]()
    file.touch()
    os.truncate(file, CHUNK_BYTES + 1)
    is_as_stated(file, checksum_of(sha256=True), lambda: seen.append(None))
    assert len(seen) == 2


@pytest.mark.parametrize("sha256", [False, True])
@pytest.mark.parametrize(("content", "whole"), [(CONTENT, True), (CONTENT.replace(b"llama", b"lIama"), False)])
def test_changed_byte_of_a_small_file_is_detected(tmp_path: Path, sha256: bool, content: bytes, whole: bool) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert is_as_stated(file, checksum_of(sha256=sha256), lambda: None) is whole
