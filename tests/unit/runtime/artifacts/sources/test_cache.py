"""Commits in a folder that outlives its pods: which commits are kept, served and removed."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources.snapshots import snapshot_bytes_below
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
    site.free = lambda _: size - snapshot_bytes_below(site.root)


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


def test_full_disk_serves_last_commit_of_branch_with_warning(site: Site) -> None:
    disk_of(site, 3 * HALF)
    before = site.fetch("main")
    move(site)
    assert site.fetch("main") == before
    assert (before / "model.safetensors").read_bytes() == WEIGHTS
    (warning,) = site.warnings
    assert warning.endswith(f"Commit {COMMIT}, which was fetched earlier, is used for revision main.")
    assert warning.startswith("Repository tiny/model needs ")


def test_disk_without_space_for_the_lock_serves_the_last_commit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = site.fetch("main")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert site.fetch("main") == before


def test_full_disk_does_not_serve_the_commit_of_another_branch(site: Site) -> None:
    disk_of(site, 3 * HALF)
    site.fetch()
    move(site)
    with pytest.raises(DiskFull):
        site.fetch("main")


def test_full_disk_does_not_serve_an_incomplete_commit(site: Site) -> None:
    disk_of(site, 3 * HALF)
    (site.fetch("main") / "config.json").unlink()
    move(site)
    with pytest.raises(DiskFull):
        site.fetch("main")


def test_commit_stays_if_its_removal_would_not_free_enough_space(site: Site) -> None:
    fetched_by_a_process_that_ended(site)
    disk_of(site, 3 * HALF)
    move(site)
    site.hub.files["large.safetensors"] = bytes(2 * HALF)
    with pytest.raises(DiskFull):
        site.fetch("main")
    assert commits(site) == {COMMIT}


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


def test_equal_files_of_a_moved_branch_are_linked(site: Site) -> None:
    before = site.fetch("main")
    site.hub.requests.clear()
    site.hub.commit, site.hub.files["notes/read me.md"] = OTHER, b"edited"
    after = site.fetch("main")
    assert site.hub.downloads() == []
    assert (after / "model.safetensors").samefile(before / "model.safetensors")
    assert (after / "notes" / "read me.md").read_bytes() == b"edited"
    assert (before / "notes" / "read me.md").read_bytes() == FILES["notes/read me.md"]


def test_moved_branch_needs_space_only_for_changed_files(site: Site) -> None:
    site.fetch("main")
    site.hub.commit, site.hub.files["notes/read me.md"] = OTHER, b"edited"
    site.free = lambda _: len(b"edited")
    assert site.fetch("main").name == OTHER


def test_renamed_file_of_a_moved_branch_is_linked(site: Site) -> None:
    before = site.fetch("main")
    site.hub.commit = OTHER
    site.hub.files["renamed.safetensors"] = site.hub.files.pop("model.safetensors")
    assert (site.fetch("main") / "renamed.safetensors").samefile(before / "model.safetensors")


def test_file_of_equal_size_but_another_checksum_is_fetched(site: Site) -> None:
    site.fetch("main")
    move(site)
    assert (site.fetch("main") / "model.safetensors").read_bytes() == site.hub.files["model.safetensors"]


@pytest.mark.parametrize("harm", [Path.unlink, truncate])
def test_files_of_an_incomplete_commit_are_not_linked(harm: Callable[[Path], None], site: Site) -> None:
    before = site.fetch("main")
    harm(before / "model.safetensors")
    site.hub.commit = OTHER
    assert (site.fetch("main") / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    "text", ["", "{}", '{"model.safetensors": 1}', '[["model.safetensors"]]', "[[1, [], {}]]", "7"]
)
def test_unreadable_list_of_files_is_ignored(text: str, site: Site) -> None:
    before = site.fetch("main")
    before.with_name(f"{COMMIT}.files").write_text(text)
    site.hub.commit = OTHER
    assert (site.fetch("main") / "model.safetensors").read_bytes() == WEIGHTS


def test_volume_without_links_fetches_all_files(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    site.fetch("main")
    monkeypatch.setattr(os, "link", refuse)
    site.hub.commit = OTHER
    assert (site.fetch("main") / "model.safetensors").read_bytes() == WEIGHTS


def test_branch_is_served_from_disk_with_warning_without_hub(site: Site) -> None:
    folder = site.fetch("main")
    site.hub.statuses = [503]
    assert site.fetch("main") == folder
    assert site.warnings == [
        f"The hub {site.endpoint} answers with HTTP 503. Commit {COMMIT}, which was fetched earlier, is used "
        "for revision main."
    ]
