"""Starts of the sim engine with local disks and a shared folder. The files and the warm-up are real."""

import fcntl
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.artifacts.recipe_cache.cache import STAGING, RecipeCache
from gaudi_runtime.artifacts.recipe_cache.entry import RecipeEntry, hash_entry_files
from gaudi_runtime.artifacts.recipe_cache.manifest import RecipeManifest
from gaudi_runtime.contract.config import ExecutionMode, ParallelismConfig, WarmupConfig
from gaudi_runtime.contract.report import SharedRecipesOutcome
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.artifacts.recipe_cache.site import PLANNED, Site, cached, shared_recipes
from tests.unit.runtime.configs import linear
from tests.unit.runtime.warmup.virtual import VirtualClock, start_on_virtual_clock

HIT, SEEDED, MISS = SharedRecipesOutcome.HIT, SharedRecipesOutcome.SEEDED, SharedRecipesOutcome.MISS


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_first_start_seeds_and_second_finds_all_recipes(site: Site) -> None:
    first, second = site.start("a"), site.start("b")
    assert (shared_recipes(first).outcome, cached(first), first.recipe_seconds_saved) == (SEEDED, 0, 0)
    assert (shared_recipes(second).outcome, cached(second)) == (HIT, PLANNED)
    assert second.recipe_seconds_saved == pytest.approx(PLANNED * (10 - 1))


async def test_copy_time_is_reported_and_not_counted_as_saved(site: Site) -> None:
    site.start("a")
    clock = VirtualClock()
    clock.sleep(100)
    read = RecipeEntry.read_manifest

    def slowly(entry: RecipeEntry) -> RecipeManifest | None:
        clock.sleep(30)
        return read(entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecipeEntry, "read_manifest", slowly)
        second = start_on_virtual_clock(site.config("b"), clock)
    assert (shared_recipes(second).seconds, cached(second)) == (30, PLANNED)
    assert second.recipe_seconds_saved == pytest.approx(PLANNED * (10 - 1) - 30)


async def test_first_start_reports_an_empty_cache(site: Site) -> None:
    assert shared_recipes(site.start("a")).reason == (
        f"{site.shared} has no recipes for this software, card, model, dtype and parallelism yet."
    )


async def test_shared_folder_contains_only_entries_marks_and_the_lock(site: Site) -> None:
    site.start("a")
    entry = RecipeEntry(site.shared, site.key())
    assert {each.name for each in site.shared.iterdir()} == {entry.folder.name, site.mark(entry).name, "lock"}
    assert {each.name for each in entry.folder.iterdir()} == {"manifest", "objects"}


async def test_start_with_another_plan_adds_only_missing_recipes(site: Site) -> None:
    site.start("a")
    policy = site.config("b").bucketing
    wider = policy.model_copy(update={"prompt": policy.prompt.model_copy(update={"query": linear(64, 512)})})
    second = site.start("b", bucketing=wider)
    assert (second.prompt.planned, second.prompt.cached) == (8, 4)
    third = site.start("c", bucketing=wider)
    assert (third.prompt.cached, shared_recipes(third).outcome) == (8, HIT)
    assert cached(site.start("d")) == PLANNED


@pytest.mark.parametrize(
    "part",
    [{"parallelism": ParallelismConfig(tensor=2)}, {"engine": ExecutionMode.TORCH_COMPILE}],
    ids=["parallelism", "mode"],
)
async def test_recipes_of_another_key_are_not_used(site: Site, part: dict[str, Any]) -> None:
    site.start("a")
    if mode := part.get("engine"):
        part = {"engine": site.config("b").engine.model_copy(update={"execution_mode": mode})}
    second = site.start("b", **part)
    assert (shared_recipes(second).outcome, cached(second)) == (SEEDED, 0)


def damage_content(site: Site) -> None:
    site.objects()[0].write_bytes(b"damaged")


def lose_content(site: Site) -> None:
    site.objects()[0].unlink()


def damage_manifest(site: Site) -> None:
    with RecipeEntry(site.shared, site.key()).folder.joinpath("manifest").open("r+b") as file:
        file.seek(100)
        file.write(b"#")


def garble_manifest(site: Site) -> None:
    (RecipeEntry(site.shared, site.key()).folder / "manifest").write_bytes(b"\xff")


def swap_entries(site: Site) -> None:
    other = site.put("other", b"x", days_ago=0)
    mine = RecipeEntry(site.shared, site.key())
    (mine.folder / "manifest").write_bytes((other.folder / "manifest").read_bytes())


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (damage_content, "checksum"),
        (lose_content, " is missing."),
        (damage_manifest, "the manifest does not match its checksum"),
        (garble_manifest, "the manifest does not match its checksum"),
        (swap_entries, "for other software"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_unusable_entry_is_ignored_with_a_reason_and_rewritten(site: Site, fault: Any, why: str) -> None:
    site.start("a")
    fault(site)
    second = site.start("b")
    assert (shared_recipes(second).outcome, cached(second)) == (SEEDED, 0)
    assert f"The recipes in {site.shared} are ignored: " in (shared_recipes(second).reason or "")
    assert why in (shared_recipes(second).reason or "")
    third = site.start("c")
    assert (shared_recipes(third).outcome, cached(third)) == (HIT, PLANNED)


async def test_damaged_volume_is_repaired_even_if_the_image_is_damaged(site: Site, tmp_path: Path) -> None:
    site.start("a")
    seed = shutil.copytree(site.shared, tmp_path / "image")
    for each in (*site.objects(), *seed.glob("*/objects/*")):
        each.write_bytes(b"damaged")
    assert shared_recipes(site.start("b", seed=str(seed))).outcome is SEEDED
    assert shared_recipes(site.start("c")).outcome is HIT


async def test_damaged_entry_leaves_no_files_on_the_pods_disk(site: Site) -> None:
    site.start("a")
    damage_content(site)
    stopped = threading.Event()
    engine = SimEngine(site.config("b"))
    engine.load = lambda progress: stopped.set()  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        start_engine(site.config("b"), ReportBoard("0" * 64), stopped, lambda _: engine)
    assert hash_entry_files(site.disk("b"), lambda _: False, lambda: None) == {}


async def test_restarted_container_adds_recipes_of_other_pods(site: Site) -> None:
    site.start("a")
    policy = site.config("b").bucketing
    wider = policy.model_copy(update={"prompt": policy.prompt.model_copy(update={"query": linear(64, 512)})})
    site.start("b", bucketing=wider)
    again = site.start("a", bucketing=wider)
    assert (again.prompt.cached, shared_recipes(again).outcome) == (8, HIT)


async def test_start_with_a_cached_plan_does_not_write_the_manifest(site: Site) -> None:
    site.start("a")
    site.start("b")
    manifest = RecipeEntry(site.shared, site.key()).folder / "manifest"
    before = manifest.stat().st_mtime_ns, manifest.stat().st_ino
    site.start("c")
    assert (manifest.stat().st_mtime_ns, manifest.stat().st_ino) == before


async def test_start_skips_the_write_if_the_volume_is_locked(site: Site) -> None:
    with (site.shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert shared_recipes(site.start("a")).outcome is SharedRecipesOutcome.SEEDING
    assert site.objects() == []


async def test_missing_folder_is_a_miss_with_a_reason(site: Site) -> None:
    site.shared.rmdir()
    report = site.start("a")
    assert (shared_recipes(report).outcome, report.prompt.warmed) == (MISS, 4)
    assert f" {site.shared}: " in (shared_recipes(report).reason or "")


async def test_other_recipes_in_use_above_the_limit_are_a_miss(site: Site) -> None:
    taken = site.put("used", b"x" * 50, days_ago=0)
    with site.mark(taken).open() as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        report = site.start("a", limit=40)
    assert shared_recipes(report).outcome is MISS
    assert " and other recipes that pods use take 737 B, but the limit is 40 B. Raise spec.recipeCache.size." in (
        shared_recipes(report).reason or ""
    )


async def test_entries_unused_for_too_long_are_removed(site: Site) -> None:
    old, young = site.put("old", b"x", days_ago=2), site.put("young", b"y", days_ago=0.5)
    site.start("a")
    assert (old.folder.exists(), site.mark(old).exists(), young.folder.exists()) == (False, False, True)
    assert not list(site.shared.glob("*.gone"))


@pytest.mark.parametrize(("days", "stays"), [(0.5, True), (2, False)])
async def test_unmarked_entry_expires_by_its_age(site: Site, days: float, stays: bool) -> None:
    entry = site.put("unmarked", b"x", days_ago=0)
    site.mark(entry).unlink()
    made = entry.folder.stat().st_mtime - days * 86_400
    os.utime(entry.folder, (made, made))
    site.start("a")
    assert entry.folder.exists() == stays


async def test_leftovers_of_a_killed_cleaner_are_removed(site: Site) -> None:
    left = site.put("other", b"x", days_ago=0).folder
    left.rename(site.shared / f"{left.name}.half.gone")
    site.start("a")
    assert not list(site.shared.glob("*.gone"))


async def test_leftovers_that_cannot_be_removed_keep_their_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    left = site.shared / "0123456789abcdef.half.gone"
    left.mkdir(parents=True)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    site.start("a")
    assert list(site.shared.glob("*.gone")) == [left]


async def test_folders_that_are_not_entries_are_kept(site: Site) -> None:
    for name in ("lost+found", "notes"):
        (site.shared / name).mkdir()
        os.utime(site.shared / name, (0, 0))
    site.start("a")
    assert {"lost+found", "notes"} <= {each.name for each in site.shared.iterdir()}


async def test_image_recipes_are_used_if_the_volume_is_empty(site: Site, tmp_path: Path) -> None:
    site.start("a")
    seed = site.shared.rename(tmp_path / "image")
    site.shared.mkdir()
    second, third = site.start("b", seed=str(seed)), site.start("c")
    assert (shared_recipes(second).outcome, cached(second)) == (HIT, PLANNED)
    assert (shared_recipes(third).outcome, cached(third)) == (HIT, PLANNED)


async def test_files_of_an_entry_keep_their_subfolders(site: Site) -> None:
    compiled(site, "a", "deep/er/recipe", 1)
    site.start("a")
    site.start("b")
    assert (site.disk("b") / "deep" / "er" / "recipe").is_file()


async def test_leftovers_of_a_killed_start_are_removed(site: Site) -> None:
    site.start("a")
    half = compiled(site, "b", f"{STAGING}/half", 1)
    assert shared_recipes(site.start("b")).outcome is HIT
    assert not half.parent.exists()


async def test_engine_without_recipe_key_is_a_miss_with_a_reason(site: Site) -> None:
    board = ReportBoard("0" * 64)
    RecipeCache(site.config("a"), None, board, threading.Event()).restore()
    found = shared_recipes(board.report())
    assert (found.outcome, found.seconds) == (MISS, 0)
    assert found.reason == "The engine keeps no compiled code in this execution mode."


async def test_long_reason_is_cut_to_the_limit_of_reports(site: Site) -> None:
    assert len(shared_recipes(site.start("a", seed="/missing" * 300)).reason or "") == 2048


async def test_disabled_warm_up_writes_no_recipes(site: Site) -> None:
    assert site.start("a", warmup=WarmupConfig(enabled=False)).shared_recipes is None
    assert list(site.shared.iterdir()) == []


async def test_stop_during_the_copy_ends_the_start(site: Site) -> None:
    site.start("a")
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        start_engine(site.config("b"), ReportBoard("0" * 64), stop)


async def test_recipes_that_exceed_the_volume_are_reported_and_not_added(site: Site) -> None:
    site.start("a", limit=100)
    compiled(site, "b", "large", 101)
    other = site.put("other", b"y", days_ago=0.5)
    second = shared_recipes(site.start("b", limit=100))
    assert (second.outcome, second.reason) == (
        HIT,
        f"The recipes take 101 B, but the limit of {site.shared} is 100 B. Raise spec.recipeCache.size.",
    )
    assert other.folder.exists()
    assert cached(site.start("c", limit=100)) == PLANNED


async def test_recipes_that_just_fit_the_volume_are_added(site: Site) -> None:
    compiled(site, "a", "large", 60)
    site.start("a", limit=100)
    compiled(site, "b", "small", 40)
    assert shared_recipes(site.start("b", limit=100)).reason is None
    site.start("c", limit=100)
    assert {"large", "small"} <= {each.name for each in site.disk("c").iterdir()}


def compiled(site: Site, pod: str, path: str, size: int) -> Path:
    """Write a file to the disk of `pod`, as an engine does."""
    file = site.disk(pod) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file
