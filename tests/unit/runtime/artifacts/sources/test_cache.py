"""A folder that outlives its pods: what it keeps, serves and removes."""

import errno
import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.snapshots import bytes_below
from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.errors import ConfigError, DiskFull, HubUnreachable
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import WEIGHTS, Site

OTHER = "d" * 40
HALF = len(WEIGHTS) // 2
UNREACHABLE = "http://127.0.0.1:9"


def move(site: Site, commit: str = OTHER) -> None:
    """Move the branch to another commit, with other weights of the same size."""
    site.hub.commit = commit
    site.hub.files = {**site.hub.files, "model.safetensors": WEIGHTS[:-1] + commit[:1].encode()}


def disk_of(site: Site, size: int) -> None:
    """Simulate a disk of `size` bytes."""
    site.free = lambda _: size - bytes_below(site.root)


@pytest.mark.parametrize("revision", [COMMIT, "main"])
def test_second_start_does_not_contact_the_hub(revision: str, site: Site) -> None:
    folder = site.fetch(revision)
    site.endpoint = UNREACHABLE
    assert site.fetch(revision, tries=0) == folder


def test_second_start_reports_all_bytes_as_present(site: Site) -> None:
    site.fetch()
    here = site.progress[-1]
    site.progress.clear()
    site.fetch()
    assert site.progress == [here]


def test_offline_variable_allows_a_cached_branch(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = site.fetch("main")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert site.fetch("main") == folder


def test_offline_variable_is_named_in_the_error(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError) as raised:
        site.fetch()
    assert str(raised.value) == "HF_HUB_OFFLINE does not allow fetching repository tiny/model: unset it."


def cut(file: Path) -> None:
    file.write_bytes(b"short")


@pytest.mark.parametrize("harm", [Path.unlink, cut])
def test_only_files_missing_from_the_snapshot_are_fetched(harm: Callable[[Path], None], site: Site) -> None:
    folder = site.fetch()
    site.hub.requests.clear()
    harm(folder / "config.json")
    assert (site.fetch() / "config.json").read_bytes() == site.hub.files["config.json"]
    assert site.hub.downloads() == []


def test_partial_files_of_another_commit_are_removed(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    move(site)
    site.fetch("main")
    assert not list((site.root / "tiny--model").glob(f"{COMMIT}*"))


def commits(site: Site) -> set[str]:
    """Return the complete commits."""
    return {each.name for each in (site.root / "tiny--model").glob("?" * len(COMMIT))}


def fetched_by_a_process_that_ended(site: Site) -> None:
    """Fetch the first commit in a process that ends, so that no reader holds it."""
    command = [sys.executable, "-m", "tests.unit.runtime.artifacts.sources.fetching", site.endpoint, str(site.root)]
    subprocess.run(command, check=True)


def test_older_commit_stays_while_space_suffices(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    move(site)
    site.fetch("main")
    assert commits(site) == {COMMIT, OTHER}


def test_disk_needs_space_only_for_missing_files(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    folder = site.root / "tiny--model"
    here = sum(bytes_below(folder / f"{COMMIT}.{kind}") for kind in ("partial", "parts"))
    site.free = lambda _: sum(map(len, site.hub.files.values())) - here
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_older_commit_stays_if_space_just_suffices(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    move(site)
    site.free = lambda _: sum(map(len, site.hub.files.values()))
    site.fetch("main")
    assert commits(site) == {COMMIT, OTHER}


def test_finished_files_need_no_more_space(site: Site) -> None:
    finished = site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(WEIGHTS)
    site.free = lambda _: HALF
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_older_commit_without_readers_is_removed_for_space(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    disk_of(site, 3 * HALF)
    move(site)
    site.fetch("main")
    assert commits(site) == {OTHER}


def test_commit_with_a_reader_is_kept(site: Site) -> None:
    disk_of(site, 3 * HALF)
    before = site.fetch("main")
    move(site)
    with pytest.raises(DiskFull):
        site.fetch("main")
    assert (before / "model.safetensors").read_bytes() == WEIGHTS


def test_volume_without_file_locks_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match=r"tiny--model cannot lock files \(No locks available\), so no pod can fetch"):
        site.fetch()


def test_lock_invisible_to_another_node_is_detected(site: Site) -> None:
    holder = site.root / "tiny--model" / "holder"

    def sign(_: FetchProgress) -> None:
        holder.write_text("a pod of another node")

    site.listen = sign
    with pytest.raises(ConfigError, match=r"locks of this volume work only within a node"):
        site.fetch()
