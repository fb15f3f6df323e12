"""The volume that receives a model: the space that a fetch needs, failing writes, and missing file locks."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.snapshots import snapshot_bytes_below
from gaudi_runtime.contract.report import FetchProgressReport
from gaudi_runtime.errors import ConfigError, DiskFull, HubUnreachable, RuntimeStartError
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import HALF, WEIGHTS, Site


def test_too_small_disk_is_reported_before_the_first_byte(site: Site) -> None:
    site.free = lambda _: 1024
    with pytest.raises(DiskFull) as raised:
        site.fetch()
    assert str(raised.value) == (
        f"Repository tiny/model needs 1 MiB more in {site.root}, but only 1 KiB are free. Use a larger volume."
    )
    assert site.hub.downloads() == []


def test_disk_needs_space_only_for_missing_files(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    folder = site.root / "tiny--model"
    here = sum(snapshot_bytes_below(folder / f"{COMMIT}.{kind}") for kind in ("partial", "parts"))
    site.free = lambda _: sum(map(len, site.hub.files.values())) - here
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_finished_files_of_a_partial_download_need_no_more_space(site: Site) -> None:
    finished = site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(WEIGHTS)
    site.free = lambda _: HALF
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_disk_that_fills_up_is_reported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        DiskFull,
        match=r"^The disk became full while .*\. The received bytes are kept, and the next start continues ",
    ):
        site.fetch()


@pytest.mark.parametrize(
    ("number", "kind", "why"),
    [
        (errno.ENOSPC, DiskFull, "is full. Free space"),
        (errno.EDQUOT, DiskFull, "is full. Free space"),
        (errno.EIO, ConfigError, r"The model cannot be fetched into .* Check the volume"),
    ],
)
def test_failing_volume_is_reported(number: int, kind: type[RuntimeStartError], why: str, site: Site) -> None:
    def fail(_: Path) -> int:
        raise OSError(number, os.strerror(number))

    site.free = fail
    with pytest.raises(kind, match=why):
        site.fetch()


def test_path_that_is_no_folder_is_reported(site: Site) -> None:
    site.root = site.root / "file"
    site.root.write_text("not a folder")
    with pytest.raises(ConfigError, match=r"file/tiny--model: Not a directory\. Mount a volume to which"):
        site.fetch()


def test_volume_without_file_locks_is_reported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match=r"tiny--model cannot lock files \(No locks available\), so no pod can fetch"):
        site.fetch()


def test_lock_invisible_to_another_node_is_detected(site: Site) -> None:
    holder = site.root / "tiny--model" / "holder"

    def sign(_: FetchProgressReport) -> None:
        holder.write_text("a pod of another node")

    site.listen = sign
    with pytest.raises(ConfigError, match=r"locks on this volume work only within one node"):
        site.fetch()
