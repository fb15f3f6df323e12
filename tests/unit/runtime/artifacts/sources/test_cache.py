"""Commits in a folder that outlives its pods: which commits are kept, served and removed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.snapshots import bytes_below
from gaudi_runtime.errors import ConfigError, DiskFull, HubUnreachable
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import FILES, HALF, WEIGHTS, Site

OTHER = "d" * 40
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


def test_error_names_the_offline_variable(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError) as raised:
        site.fetch()
    assert (
        str(raised.value) == "HF_HUB_OFFLINE is set, so repository tiny/model cannot be fetched. Unset HF_HUB_OFFLINE."
    )


def truncate(file: Path) -> None:
    file.write_bytes(b"short")


@pytest.mark.parametrize("harm", [Path.unlink, truncate])
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
    """Return the names of the complete commits in the folder."""
    return {each.name for each in (site.root / "tiny--model").glob("?" * len(COMMIT))}


def fetched_by_a_process_that_ended(site: Site) -> None:
    """Fetch the first commit in a process that ends, so that no reader holds the commit."""
    command = [sys.executable, "-m", "tests.unit.runtime.artifacts.sources.fetching", site.endpoint, str(site.root)]
    subprocess.run(command, check=True)


def test_older_commit_stays_while_space_suffices(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    move(site)
    site.fetch("main")
    assert commits(site) == {COMMIT, OTHER}


def test_older_commit_stays_if_space_just_suffices(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    move(site)
    site.free = lambda _: sum(map(len, site.hub.files.values()))
    site.fetch("main")
    assert commits(site) == {COMMIT, OTHER}


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


def test_complete_commit_is_served_without_the_hub(site: Site) -> None:
    folder = site.fetch()
    site.hub.requests.clear()
    assert site.fetch() == folder
    assert site.hub.requests == []


def test_branch_is_resolved_again_but_files_are_fetched_once(site: Site) -> None:
    site.fetch("main")
    site.hub.requests.clear()
    site.fetch("main")
    assert [path for path, _, _ in site.hub.requests] == ["/api/models/tiny/model/revision/main"]


def test_second_fetch_of_a_branch_reports_no_progress(site: Site) -> None:
    site.fetch("main")
    site.progress.clear()
    site.fetch("main")
    assert site.progress == []


def test_moved_branch_is_fetched_again(site: Site) -> None:
    before = site.fetch("main")
    site.hub.commit, site.hub.files["config.json"] = "d" * 40, b"{}"
    after = site.fetch("main")
    assert (before / "config.json").read_bytes() == FILES["config.json"]
    assert (after / "config.json").read_bytes() == b"{}"


def test_branch_is_served_from_disk_with_warning_without_hub(site: Site) -> None:
    folder = site.fetch("main")
    site.hub.statuses = [503]
    assert site.fetch("main") == folder
    assert site.warnings == [
        f"The hub {site.endpoint} answers with HTTP 503. Commit {COMMIT}, which was fetched earlier, is used "
        "for revision main."
    ]
