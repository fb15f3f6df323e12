"""What a folder that outlives its pods keeps, gives back, and lets go."""

import errno
import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.store import bytes_below
from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.errors import ConfigError, DiskFull, HubUnreachable
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import WEIGHTS, Site

OTHER = "d" * 40
HALF = len(WEIGHTS) // 2
UNREACHABLE = "http://127.0.0.1:9"


def move(site: Site, commit: str = OTHER) -> None:
    """The branch is at another commit, with other weights of the same size."""
    site.hub.commit = commit
    site.hub.files = {**site.hub.files, "model.safetensors": WEIGHTS[:-1] + commit[:1].encode()}


def disk_of(site: Site, size: int) -> None:
    """A disk with room for `size` bytes."""
    site.free = lambda _: size - bytes_below(site.root)


@pytest.mark.parametrize("revision", [COMMIT, "main"])
def test_second_start_needs_no_hub(revision: str, site: Site) -> None:
    folder = site.fetch(revision)
    site.endpoint = UNREACHABLE
    assert site.fetch(revision, tries=0) == folder


def test_second_start_shows_that_all_bytes_are_here(site: Site) -> None:
    site.fetch()
    here = site.told[-1]
    site.told.clear()
    site.fetch()
    assert site.told == [here]


def test_variable_that_forbids_hub_forbids_no_branch_that_is_here(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = site.fetch("main")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert site.fetch("main") == folder


def test_variable_that_forbids_the_hub_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError) as raised:
        site.fetch()
    assert str(raised.value) == "HF_HUB_OFFLINE does not allow fetching repository tiny/model: unset it."


def cut(file: Path) -> None:
    file.write_bytes(b"short")


@pytest.mark.parametrize("harm", [Path.unlink, cut])
def test_file_that_snapshot_lost_is_fetched_again_and_no_other(harm: Callable[[Path], None], site: Site) -> None:
    folder = site.fetch()
    site.hub.requests.clear()
    harm(folder / "config.json")
    assert (site.fetch() / "config.json").read_bytes() == site.hub.files["config.json"]
    assert site.hub.downloads() == []


def test_what_another_commit_left_unfinished_is_removed(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    move(site)
    site.fetch("main")
    assert not list((site.root / "tiny--model").glob(f"{COMMIT}*"))


def commits(site: Site) -> set[str]:
    """Those that are complete."""
    return {each.name for each in (site.root / "tiny--model").glob("?" * len(COMMIT))}


def fetched_by_a_process_that_ended(site: Site) -> None:
    """The first commit is here, and nobody reads it any more."""
    command = [sys.executable, "-m", "tests.unit.runtime.artifacts.sources.fetching", site.endpoint, str(site.root)]
    subprocess.run(command, check=True)


def test_older_commit_stays_while_there_is_room(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    move(site)
    site.fetch("main")
    assert commits(site) == {COMMIT, OTHER}


def test_disk_with_room_for_what_is_missing_is_enough(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    folder = site.root / "tiny--model"
    here = sum(bytes_below(folder / f"{COMMIT}.{kind}") for kind in ("partial", "parts"))
    site.free = lambda _: sum(map(len, site.hub.files.values())) - here
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_older_commit_stays_where_room_is_just_enough(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    move(site)
    site.free = lambda _: sum(map(len, site.hub.files.values()))
    site.fetch("main")
    assert commits(site) == {COMMIT, OTHER}


def test_finished_files_need_no_more_room(site: Site) -> None:
    finished = site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(WEIGHTS)
    site.free = lambda _: HALF
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_older_commit_that_nobody_reads_makes_room(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    disk_of(site, 3 * HALF)
    move(site)
    site.fetch("main")
    assert commits(site) == {OTHER}


def test_commit_that_somebody_reads_is_kept(site: Site) -> None:
    disk_of(site, 3 * HALF)
    before = site.fetch("main")
    move(site)
    with pytest.raises(DiskFull):
        site.fetch("main")
    assert (before / "model.safetensors").read_bytes() == WEIGHTS


def test_volume_without_locks_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match=r"tiny--model cannot lock files \(No locks available\), so no pod can fetch"):
        site.fetch()


def test_lock_that_another_node_does_not_see_is_noticed(site: Site) -> None:
    holder = site.root / "tiny--model" / "holder"

    def sign(_: FetchProgress) -> None:
        holder.write_text("a pod of another node")

    site.listen = sign
    with pytest.raises(ConfigError, match=r"locks of this volume work only within a node"):
        site.fetch()
