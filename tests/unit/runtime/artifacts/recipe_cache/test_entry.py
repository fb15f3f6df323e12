"""One entry on disk: the state that killed writers leave, and the state that concurrent readers see."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.recipe_cache.cache import RecipeCache
from gaudi_runtime.artifacts.recipe_cache.entry import CHUNK_BYTES, Heartbeat, RecipeEntry, hash_entry_files
from gaudi_runtime.artifacts.recipe_cache.manifest import MAX_MANIFEST_BYTES, ManifestMismatch, RecipeManifest
from gaudi_runtime.contract.config import SharedRecipesConfig
from gaudi_runtime.contract.report import SharedRecipesOutcome
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.warmup.journal import NOTHING_KNOWN
from tests.unit.runtime.configs import sim_config

KEY = RecipeKey(software="sim", card="gaudi2", model="llama", dtype="auto", parallelism="tensor 1")


class Killed(Exception):
    """A simulated kill of the process."""


def alive() -> None:
    pass


def killed_at(step: int) -> Heartbeat:
    """Return a function that raises Killed after `step` calls."""
    calls = iter(range(step))

    def raise_when_killed() -> None:
        if next(calls, None) is None:
            raise Killed

    return raise_when_killed


def make_recipes(folder: Path, **contents: str) -> RecipeManifest:
    """Write recipes to the folder of a pod, and return their manifest."""
    for name, content in contents.items():
        (folder / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "code" / name).write_text(content)
    return RecipeManifest(hash_entry_files(folder, lambda _: False, alive), NOTHING_KNOWN)


@pytest.fixture
def entry(tmp_path: Path) -> RecipeEntry:
    return RecipeEntry(tmp_path / "shared", KEY)


@pytest.mark.parametrize("step", range(4))
def test_killed_writer_leaves_no_visible_entry(entry: RecipeEntry, tmp_path: Path, step: int) -> None:
    manifest = make_recipes(tmp_path / "disk", a="one", b="two")
    with pytest.raises(Killed):
        entry.write(manifest, tmp_path / "disk", killed_at(step), overwrite=False)
    assert entry.read_manifest() is None


def test_next_writer_removes_leftovers_of_a_killed_one(entry: RecipeEntry, tmp_path: Path) -> None:
    manifest = make_recipes(tmp_path / "disk", a="one", b="two")
    with pytest.raises(Killed):
        entry.write(manifest, tmp_path / "disk", killed_at(1), overwrite=False)
    (entry.folder / "manifest.half").touch()
    (entry.folder / "objects" / "content.half").touch()
    entry.write(manifest, tmp_path / "disk", alive, overwrite=False)
    assert {file.name for file in (entry.folder / "objects").iterdir()} == {
        file.sha256 for file in manifest.files.values()
    }
    assert not list(entry.folder.glob("manifest.*"))


def test_copied_files_keep_their_mode(entry: RecipeEntry, tmp_path: Path) -> None:
    (tmp_path / "disk" / "code").mkdir(parents=True)
    (tmp_path / "disk" / "code" / "tool").touch(mode=0o755)
    manifest = make_recipes(tmp_path / "disk", a="one")
    entry.write(manifest, tmp_path / "disk", alive, overwrite=False)
    entry.copy(manifest.files.items(), tmp_path / "other", alive)
    assert (tmp_path / "other" / "code" / "a").read_text() == "one"
    assert (tmp_path / "other" / "code" / "tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "other" / "code" / "a").stat().st_mode & 0o777 == 0o644


def test_stop_is_checked_between_pieces_of_a_large_file(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", CHUNK_BYTES + 1)
    assert hash_entry_files(tmp_path, lambda _: False, alive)["large"].size == CHUNK_BYTES + 1
    with pytest.raises(Killed):
        hash_entry_files(tmp_path, lambda _: False, killed_at(2))


def test_manifest_above_the_size_limit_is_not_read(entry: RecipeEntry) -> None:
    entry.folder.mkdir(parents=True)
    (entry.folder / "manifest").touch()
    os.truncate(entry.folder / "manifest", MAX_MANIFEST_BYTES + 1)
    with pytest.raises(ManifestMismatch, match="the manifest is larger than 128 MiB"):
        entry.read_manifest()


def test_symbolic_links_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "link").symlink_to(tmp_path / "secret")
    assert hash_entry_files(tmp_path / "disk", lambda _: False, alive) == {}


async def test_reader_uses_the_new_entry_if_replaced_while_reading(
    entry: RecipeEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = make_recipes(tmp_path / "one", a="one"), make_recipes(tmp_path / "two", a="two")
    entry.folder.parent.mkdir()
    entry.write(before, tmp_path / "one", alive, overwrite=False)
    copy: Callable[..., None] = RecipeEntry.copy

    def replaced_first(self: RecipeEntry, *arguments: object) -> None:
        monkeypatch.setattr(RecipeEntry, "copy", copy)
        entry.write(after, tmp_path / "two", alive, overwrite=False)
        entry.remove_unlisted(after)
        copy(self, *arguments)

    monkeypatch.setattr(RecipeEntry, "copy", replaced_first)
    assert copy_to_empty_disk(entry.folder.parent, tmp_path / "disk") is SharedRecipesOutcome.HIT
    assert (tmp_path / "disk" / "code" / "a").read_text() == "two"


def copy_to_empty_disk(shared: Path, disk: Path) -> SharedRecipesOutcome:
    """Return the outcome of a start on an empty disk."""
    given = SharedRecipesConfig(path=str(shared), limit_bytes=10**9, max_age_seconds=60)
    config = sim_config().model_copy(update={"recipe_cache_dir": str(disk), "shared_recipes": given})
    board = ReportBoard("0" * 64)
    RecipeCache(config, KEY, board, threading.Event()).restore()
    found = board.report().shared_recipes
    assert found is not None
    return found.outcome
