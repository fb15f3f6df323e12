"""Garbage collection when a revision is deleted: real files, and starts of revisions with different histories."""

import fcntl
import os
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.recipe_cache.entry import RecipeEntry
from gaudi_runtime.artifacts.recipe_cache.revisions import RecipeRevisionId
from gaudi_runtime.contract.config import KeptRevisions
from gaudi_runtime.contract.ports import REVISION_VARIABLE
from tests.unit.runtime.artifacts.recipe_cache.site import Site

RESOURCE = "uid-of-tiny"
OLD, NEW, OTHERS = (
    RecipeRevisionId(RESOURCE, "old"),
    RecipeRevisionId(RESOURCE, "new"),
    RecipeRevisionId("uid-of-other", "old"),
)
HALF_A_DAY, A_MINUTE = 0.5, 1 / 1440


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def start(site: Site, monkeypatch: pytest.MonkeyPatch, revision: str, *kept: str) -> None:
    """Start a pod of `revision`, whose file of kept revisions lists `kept`."""
    site.kept_revisions.write_text(KeptRevisions(resource=RESOURCE, revisions=kept).model_dump_json())
    monkeypatch.setenv(REVISION_VARIABLE, revision)
    site.start(revision)


async def test_start_removes_entries_needed_by_no_kept_revision(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = site.put("forgotten", b"x", HALF_A_DAY, OLD)
    start(site, monkeypatch, "new", "new")
    assert (forgotten.folder.exists(), site.mark(forgotten, OLD).exists()) == (False, False)


async def test_entry_of_a_revision_for_rollback_stays(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = site.put("kept", b"x", HALF_A_DAY, OLD)
    start(site, monkeypatch, "new", "old", "new")
    assert kept.folder.exists()


async def test_entry_used_by_another_resource_stays(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = site.put("shared", b"x", HALF_A_DAY, OLD, OTHERS)
    foreign = site.put("foreign", b"y", HALF_A_DAY, OTHERS)
    start(site, monkeypatch, "new", "new")
    assert (shared.folder.exists(), foreign.folder.exists()) == (True, True)
    assert not site.mark(shared, OLD).exists()


async def test_pod_unaware_of_a_new_revision_keeps_its_entry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = site.put("fresh", b"x", A_MINUTE, NEW)
    start(site, monkeypatch, "old", "old")
    assert fresh.folder.exists()


async def test_entry_of_a_running_process_stays(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    running = site.put("running", b"x", HALF_A_DAY, OLD)
    with site.mark(running, OLD).open() as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        start(site, monkeypatch, "new", "new")
    assert running.folder.exists()


async def test_unreadable_mark_keeps_only_its_entry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign, forgotten = site.put("foreign", b"x", HALF_A_DAY, OLD), site.put("forgotten", b"y", HALF_A_DAY, OLD)
    site.mark(foreign, OLD).unlink()
    site.mark(foreign, OLD).mkdir()  # Opening it fails for every user.
    used = site.mark(forgotten, OLD).stat().st_mtime
    os.utime(site.mark(foreign, OLD), (used, used))
    start(site, monkeypatch, "new", "new")
    assert (foreign.folder.exists(), forgotten.folder.exists()) == (True, False)


async def test_pod_with_unreadable_kept_revisions_removes_no_entry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = site.put("forgotten", b"x", HALF_A_DAY, OLD)
    site.kept_revisions.write_text("{")
    monkeypatch.setenv(REVISION_VARIABLE, "new")
    site.start("new")
    assert forgotten.folder.exists()


async def test_start_marks_its_entry_for_its_revision(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    start(site, monkeypatch, "new", "new")
    assert [each.name for each in site.shared.glob("*.use")] == [
        site.mark(RecipeEntry(site.shared, site.key()), NEW).name
    ]


async def test_start_without_a_revision_marks_its_entry_without_a_user(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.kept_revisions.write_text(KeptRevisions(resource=RESOURCE, revisions=("new",)).model_dump_json())
    monkeypatch.delenv(REVISION_VARIABLE, raising=False)
    site.start("any")
    assert [each.name for each in site.shared.glob("*.use")] == [site.mark(RecipeEntry(site.shared, site.key())).name]


@pytest.mark.parametrize(("user", "days"), [(NEW, HALF_A_DAY), (OLD, A_MINUTE)], ids=["needed", "just now"])
async def test_mark_of_a_needed_or_recent_entry_is_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch, user: RecipeRevisionId, days: float
) -> None:
    entry = site.put("marked", b"x", days, user)
    start(site, monkeypatch, "new", "new")
    assert site.mark(entry, user).exists()


async def test_marks_without_an_entry_are_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    never = site.put("never", b"x", HALF_A_DAY, NEW)
    never.folder.rename(site.shared / "elsewhere")
    start(site, monkeypatch, "new", "new")
    assert not site.mark(never, NEW).exists()
