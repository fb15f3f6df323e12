"""An interrupted download is resumed: received bytes and finished files are kept."""

import pytest

from gaudi_runtime.errors import (
    HubUnreachable,
)
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import HALF, WEIGHTS, Site


def test_broken_download_resumes_at_the_last_received_byte(site: Site) -> None:
    site.hub.break_after = [HALF]
    folder = site.fetch()
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == [("model.safetensors", None), ("model.safetensors", f"bytes={HALF}-")]


def test_next_process_resumes_the_download(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    site.fetch()
    assert site.hub.downloads()[-1] == ("model.safetensors", f"bytes={HALF}-")


def test_server_without_ranges_restarts_the_download(site: Site) -> None:
    site.hub.break_after, site.hub.ranges = [HALF], False
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == [("model.safetensors", None), ("model.safetensors", f"bytes={HALF}-")]


def test_discarded_bytes_are_no_longer_counted(site: Site) -> None:
    site.hub.break_after, site.hub.ranges = [HALF], False
    site.fetch()
    total = sum(map(len, site.hub.files.values()))
    assert max(each.done_bytes for each in site.progress) == site.progress[-1].done_bytes == total


def test_complete_file_is_not_requested(site: Site) -> None:
    part = site.root / "tiny--model" / f"{COMMIT}.parts" / "model.safetensors"
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS)
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == []


def test_finished_files_of_an_ended_process_are_kept(site: Site) -> None:
    finished = site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(WEIGHTS)
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == []
