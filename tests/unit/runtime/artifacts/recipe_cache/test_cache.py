"""Starts of the sim engine that share a folder, each with a disk of its own: the real files, the real warm-up."""

import fcntl
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.artifacts.recipe_cache.cache import STAGING, RecipeCache
from gaudi_runtime.artifacts.recipe_cache.entry import Entry, files_below
from gaudi_runtime.artifacts.recipe_cache.manifest import Manifest
from gaudi_runtime.contract.config import ExecutionMode, ParallelismConfig, WarmupConfig
from gaudi_runtime.contract.report import RecipeOutcome
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.start_engine import start_engine
from tests.unit.runtime.artifacts.recipe_cache.site import PLANNED, Site, cached, told
from tests.unit.runtime.configs import linear
from tests.unit.runtime.warmup.virtual import VirtualClock, virtual_start

HIT, SEEDED, MISS = RecipeOutcome.HIT, RecipeOutcome.SEEDED, RecipeOutcome.MISS


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_the_first_start_seeds_and_the_second_finds_all(site: Site) -> None:
    first, second = site.start("a"), site.start("b")
    assert (told(first).outcome, cached(first), first.recipe_seconds_saved) == (SEEDED, 0, 0)
    assert (told(second).outcome, cached(second)) == (HIT, PLANNED)
    assert second.recipe_seconds_saved == pytest.approx(PLANNED * (10 - 1))


async def test_what_bringing_recipes_took_is_told_and_is_not_saved(site: Site) -> None:
    site.start("a")
    clock = VirtualClock()
    clock.sleep(100)
    read = Entry.read

    def slowly(entry: Entry) -> Manifest | None:
        clock.sleep(30)
        return read(entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Entry, "read", slowly)
        second = virtual_start(site.config("b"), clock)
    assert (told(second).seconds, cached(second)) == (30, PLANNED)
    assert second.recipe_seconds_saved == pytest.approx(PLANNED * (10 - 1) - 30)


async def test_a_first_start_says_that_there_was_nothing(site: Site) -> None:
    assert told(site.start("a")).reason == (
        f"{site.shared} has no recipes of this software, card, model, dtype and parallelism yet."
    )


async def test_nothing_is_compiled_in_the_shared_folder(site: Site) -> None:
    site.start("a")
    entry = Entry(site.shared, site.key())
    assert {each.name for each in site.shared.iterdir()} == {entry.folder.name, site.mark(entry).name, "lock"}
    assert {each.name for each in entry.folder.iterdir()} == {"manifest", "objects"}


async def test_a_start_with_another_plan_adds_only_what_was_missing(site: Site) -> None:
    site.start("a")
    policy = site.config("b").bucketing
    wider = policy.model_copy(update={"prompt": policy.prompt.model_copy(update={"query": linear(64, 512)})})
    second = site.start("b", bucketing=wider)
    assert (second.prompt.planned, second.prompt.cached) == (8, 4)
    third = site.start("c", bucketing=wider)
    assert (third.prompt.cached, told(third).outcome) == (8, HIT)
    assert cached(site.start("d")) == PLANNED


@pytest.mark.parametrize(
    "part",
    [{"parallelism": ParallelismConfig(tensor=2)}, {"engine": ExecutionMode.TORCH_COMPILE}],
    ids=["parallelism", "mode"],
)
async def test_recipes_of_another_key_are_not_taken(site: Site, part: dict[str, Any]) -> None:
    site.start("a")
    if mode := part.get("engine"):
        part = {"engine": site.config("b").engine.model_copy(update={"execution_mode": mode})}
    second = site.start("b", **part)
    assert (told(second).outcome, cached(second)) == (SEEDED, 0)


def damage_content(site: Site) -> None:
    site.objects()[0].write_bytes(b"damaged")


def lose_content(site: Site) -> None:
    site.objects()[0].unlink()


def damage_manifest(site: Site) -> None:
    with Entry(site.shared, site.key()).folder.joinpath("manifest").open("r+b") as file:
        file.seek(100)
        file.write(b"#")


def garble_manifest(site: Site) -> None:
    (Entry(site.shared, site.key()).folder / "manifest").write_bytes(b"\xff")


def swap_entries(site: Site) -> None:
    other = site.put("other", b"x", days_ago=0)
    mine = Entry(site.shared, site.key())
    (mine.folder / "manifest").write_bytes((other.folder / "manifest").read_bytes())


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (damage_content, "checksum"),
        (lose_content, "is missing in it"),
        (damage_manifest, "its manifest is damaged"),
        (garble_manifest, "its manifest is damaged"),
        (swap_entries, "another software"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_unusable_entry_is_ignored_with_a_reason_and_written_anew(site: Site, fault: Any, why: str) -> None:
    site.start("a")
    fault(site)
    second = site.start("b")
    assert (told(second).outcome, cached(second)) == (SEEDED, 0)
    assert f"The recipes in {site.shared} are ignored: " in (told(second).reason or "")
    assert why in (told(second).reason or "")
    third = site.start("c")
    assert (told(third).outcome, cached(third)) == (HIT, PLANNED)


async def test_damaged_volume_is_mended_although_the_image_is_damaged_too(site: Site, tmp_path: Path) -> None:
    site.start("a")
    seed = shutil.copytree(site.shared, tmp_path / "image")
    for each in (*site.objects(), *seed.glob("*/objects/*")):
        each.write_bytes(b"damaged")
    assert told(site.start("b", seed=str(seed))).outcome is SEEDED
    assert told(site.start("c")).outcome is HIT


async def test_damaged_entry_leaves_nothing_on_the_disk_of_the_pod(site: Site) -> None:
    site.start("a")
    damage_content(site)
    stopped = threading.Event()
    engine = SimEngine(site.config("b"))
    engine.load = lambda progress: stopped.set()  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        start_engine(site.config("b"), ReportBoard("0" * 64), stopped, lambda _: engine)
    assert files_below(site.disk("b"), lambda _: False, lambda: None) == {}


async def test_restarted_container_keeps_its_recipes_and_takes_new_ones(site: Site) -> None:
    site.start("a")
    policy = site.config("b").bucketing
    wider = policy.model_copy(update={"prompt": policy.prompt.model_copy(update={"query": linear(64, 512)})})
    site.start("b", bucketing=wider)
    again = site.start("a", bucketing=wider)
    assert (again.prompt.cached, told(again).outcome) == (8, HIT)


async def test_a_second_start_with_the_same_plan_writes_nothing(site: Site) -> None:
    site.start("a")
    site.start("b")
    manifest = Entry(site.shared, site.key()).folder / "manifest"
    before = manifest.stat().st_mtime_ns, manifest.stat().st_ino
    site.start("c")
    assert (manifest.stat().st_mtime_ns, manifest.stat().st_ino) == before


async def test_while_another_process_writes_a_start_neither_waits_nor_writes(site: Site) -> None:
    with (site.shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert told(site.start("a")).outcome is RecipeOutcome.SEEDING
    assert site.objects() == []


async def test_folder_that_is_not_there_is_a_miss_with_reason(site: Site) -> None:
    site.shared.rmdir()
    report = site.start("a")
    assert (told(report).outcome, report.prompt.warmed) == (MISS, 4)
    assert f" {site.shared} (" in (told(report).reason or "")


async def test_recipes_without_room_are_a_miss_with_a_reason(site: Site) -> None:
    taken = site.put("used", b"x" * 50, days_ago=0)
    with site.mark(taken).open() as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        report = site.start("a", limit=40)
    assert told(report).outcome is MISS
    assert "of others that pods use exceed the limit of 40 B: raise spec.recipeCache.size." in (
        told(report).reason or ""
    )


async def test_entries_that_nobody_used_for_too_long_are_removed(site: Site) -> None:
    old, young = site.put("old", b"x", days_ago=2), site.put("young", b"y", days_ago=0.5)
    site.start("a")
    assert (old.folder.exists(), site.mark(old).exists(), young.folder.exists()) == (False, False, True)
    assert not list(site.shared.glob("*.gone"))


@pytest.mark.parametrize(("days", "stays"), [(0.5, True), (2, False)])
async def test_entry_that_nobody_has_marked_goes_by_its_age(site: Site, days: float, stays: bool) -> None:
    entry = site.put("unmarked", b"x", days_ago=0)
    site.mark(entry).unlink()
    made = entry.folder.stat().st_mtime - days * 86_400
    os.utime(entry.folder, (made, made))
    site.start("a")
    assert entry.folder.exists() == stays


async def test_what_a_killed_cleaner_left_is_removed(site: Site) -> None:
    left = site.put("other", b"x", days_ago=0).folder
    left.rename(site.shared / f"{left.name}.half.gone")
    site.start("a")
    assert not list(site.shared.glob("*.gone"))


async def test_what_is_no_entry_is_let_be(site: Site) -> None:
    for name in ("lost+found", "notes"):
        (site.shared / name).mkdir()
        os.utime(site.shared / name, (0, 0))
    site.start("a")
    assert {"lost+found", "notes"} <= {each.name for each in site.shared.iterdir()}


async def test_image_with_recipes_is_taken_where_the_volume_has_none(site: Site, tmp_path: Path) -> None:
    site.start("a")
    seed = site.shared.rename(tmp_path / "image")
    site.shared.mkdir()
    second, third = site.start("b", seed=str(seed)), site.start("c")
    assert (told(second).outcome, cached(second)) == (HIT, PLANNED)
    assert (told(third).outcome, cached(third)) == (HIT, PLANNED)


async def test_files_of_an_entry_come_in_folders_of_their_own(site: Site) -> None:
    compiled(site, "a", "deep/er/recipe", 1)
    site.start("a")
    site.start("b")
    assert (site.disk("b") / "deep" / "er" / "recipe").is_file()


async def test_what_a_killed_start_has_left_is_dropped(site: Site) -> None:
    site.start("a")
    half = compiled(site, "b", f"{STAGING}/half", 1)
    assert told(site.start("b")).outcome is HIT
    assert not half.parent.exists()


async def test_engine_that_keeps_no_code_is_miss_with_reason(site: Site) -> None:
    board = ReportBoard("0" * 64)
    RecipeCache(site.config("a"), None, board, threading.Event()).take()
    found = told(board.report())
    assert (found.outcome, found.seconds) == (MISS, 0)
    assert found.reason == "The engine keeps no compiled code in this execution mode."


async def test_long_reason_is_cut_to_what_a_report_holds(site: Site) -> None:
    assert len(told(site.start("a", seed="/missing" * 300)).reason or "") == 2048


async def test_without_warm_up_nothing_is_shared(site: Site) -> None:
    assert site.start("a", warmup=WarmupConfig(enabled=False)).shared_recipes is None
    assert list(site.shared.iterdir()) == []


async def test_a_stop_while_recipes_are_copied_ends_the_start(site: Site) -> None:
    site.start("a")
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        start_engine(site.config("b"), ReportBoard("0" * 64), stop)


async def test_recipes_that_outgrow_volume_stay_as_they_are_with_reason(site: Site) -> None:
    site.start("a", limit=100)
    compiled(site, "b", "large", 101)
    other = site.put("other", b"y", days_ago=0.5)
    second = told(site.start("b", limit=100))
    assert (second.outcome, second.reason) == (
        HIT,
        f"101 B of recipes exceed the limit of 100 B of {site.shared}: raise spec.recipeCache.size.",
    )
    assert other.folder.exists()
    assert cached(site.start("c", limit=100)) == PLANNED


async def test_recipes_that_just_fit_the_volume_are_added(site: Site) -> None:
    compiled(site, "a", "large", 60)
    site.start("a", limit=100)
    compiled(site, "b", "small", 40)
    assert told(site.start("b", limit=100)).reason is None
    site.start("c", limit=100)
    assert {"large", "small"} <= {each.name for each in site.disk("c").iterdir()}


def compiled(site: Site, pod: str, path: str, size: int) -> Path:
    """A file on the disk of `pod`, as an engine leaves it there."""
    file = site.disk(pod) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file
