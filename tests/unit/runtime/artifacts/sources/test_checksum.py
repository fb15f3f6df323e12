"""A file is accepted only if it matches the checksum of its source."""

import hashlib
import os
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.download import CHUNK_BYTES, download_matches_checksum
from gaudi_runtime.artifacts.sources.listing import ListedFile
from gaudi_runtime.errors import ModelUnreadable
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import WEIGHTS, Site

CONTENT = b'{"model_type": "llama"}'


def checksum_of(*, sha256: bool) -> ListedFile:
    """Return a hub's entry for a file. Large files have a SHA-256 digest, small files only a git object ID."""
    blob = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT, usedforsecurity=False).hexdigest()
    digest = hashlib.sha256(CONTENT).hexdigest() if sha256 else None
    return ListedFile(path="config.json", size=len(CONTENT), blob_id=blob, sha256=digest)


def test_large_file_reports_progress_every_few_megabytes(tmp_path: Path) -> None:
    file, seen = tmp_path / "large", list[None]()
    file.touch()
    os.truncate(file, CHUNK_BYTES + 1)
    download_matches_checksum(file, checksum_of(sha256=True), lambda: seen.append(None))
    assert len(seen) == 2


@pytest.mark.parametrize("sha256", [False, True])
@pytest.mark.parametrize(("content", "whole"), [(CONTENT, True), (CONTENT.replace(b"llama", b"lIama"), False)])
def test_changed_byte_of_a_small_file_is_detected(tmp_path: Path, sha256: bool, content: bytes, whole: bool) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert download_matches_checksum(file, checksum_of(sha256=sha256), lambda: None) is whole


def test_file_damaged_in_transit_is_fetched_again(site: Site) -> None:
    site.hub.damage = 1
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert max(each.done_bytes for each in site.progress) == sum(map(len, site.hub.files.values()))


def test_file_with_a_wrong_checksum_is_reported_and_not_published(site: Site) -> None:
    site.hub.damage = 2
    with pytest.raises(ModelUnreadable) as raised:
        site.fetch()
    assert str(raised.value) == (
        "model.safetensors of repository tiny/model was downloaded 2 times with a wrong checksum. Choose "
        "another revision, or contact the owner of the repository or mirror."
    )
    assert not (site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors").exists()
