"""The shared recipes as two steps of start-up: `take` before the engine loads, `publish` after warm-up.

Engines compile on the pod's own disk, never on the volume. A failure of the cache never fails a start. It becomes a
reason in the report (docs/how-to/recipe-cache.md).
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.artifacts.lock import hold_in_use_lock, try_lock
from gaudi_runtime.artifacts.recipe_cache.cleaning import clean_old_entries
from gaudi_runtime.artifacts.recipe_cache.entry import Heartbeat, RecipeEntry, hash_entry_files
from gaudi_runtime.artifacts.recipe_cache.manifest import ManifestMismatch, RecipeManifest
from gaudi_runtime.artifacts.recipe_cache.revisions import Revisions, revision_mark_name
from gaudi_runtime.contract.config import RuntimeConfig, SharedRecipesConfig
from gaudi_runtime.contract.report import SharedRecipesOutcome, SharedRecipesReport
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.process.signals import raise_if_stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.units import format_bytes, plural
from gaudi_runtime.warmup.journal import JOURNAL_PREFIX, Journal

log = logging.getLogger(__name__)

ADVICE = "Raise spec.recipeCache.size."
LOOKS = 2
"""A writer may replace an entry while it is read, so missing files are looked up once more."""
STAGING = ".taking"
UNFINISHED = (".lock", ".tmp", ".new")


class _LocalRecipes:
    """The recipes of `key` below `folder`, on the pod's own disk: engines compile there and keep a journal."""

    def __init__(self, folder: Path, key: RecipeKey) -> None:
        self.folder, self._key = folder, key
        self._staging_folder = folder / STAGING

    def build_manifest(self, heartbeat: Heartbeat, exclude: Collection[str] = ()) -> RecipeManifest:
        """Return the recipes on this disk, except the paths in `exclude`. Reads every returned file. Raises OSError."""
        with self._open_journal() as journal:
            files = hash_entry_files(self.folder, lambda path: path in exclude or _is_no_recipe(path), heartbeat)
            return RecipeManifest(files, journal.recipes)

    def add(self, entry: RecipeEntry, manifest: RecipeManifest, heartbeat: Heartbeat) -> None:
        """Copy all missing files to this disk, or none if a copy fails. Raises ManifestMismatch or OSError."""
        missing_files = [(path, file) for path, file in manifest.files.items() if not (self.folder / path).exists()]
        # Each file appears by a rename. Otherwise an engine could load half a file after a killed copy.
        with self._empty_staging():
            entry.copy(missing_files, self._staging_folder, heartbeat)
            for path, _ in missing_files:
                target = self.folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                (self._staging_folder / path).replace(target)
        with self._open_journal() as journal:
            for step, seconds in manifest.recipes.seconds.items():
                if step not in journal.recipes.seconds:
                    journal.write(step, seconds)

    @contextmanager
    def _empty_staging(self) -> Iterator[None]:
        """Empty the staging folder before and after the block, because a killed process may have left files there."""
        shutil.rmtree(self._staging_folder, ignore_errors=True)
        self._staging_folder.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self._staging_folder, ignore_errors=True)

    def _open_journal(self) -> closing[Journal]:
        return closing(Journal(str(self.folder), self._key))


def _is_no_recipe(path: str) -> bool:
    """Return True for journals, which manifests contain, and for locks and unfinished files of one process."""
    return path.startswith((f"{STAGING}/", JOURNAL_PREFIX)) or path.endswith(UNFINISHED)


@dataclass(frozen=True)
class _Places:
    """The places of the recipes of one key: the shared volume with its entry, and the disk of this pod."""

    settings: SharedRecipesConfig
    entry: RecipeEntry
    disk: _LocalRecipes
    revisions: Revisions


class RecipeCache:
    """The recipe cache of one start. `key` is None for an engine that stores no recipes."""

    def __init__(
        self,
        config: RuntimeConfig,
        key: RecipeKey | None,
        board: ReportBoard,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the arguments without reading any file. `clock` returns monotonic seconds."""
        settings, local_folder = config.shared_recipes, config.recipe_cache_dir
        self._enabled = bool(settings and local_folder and config.warmup.enabled)
        self._places: _Places | None = None
        if self._enabled and settings and local_folder and key:
            entry, disk = RecipeEntry(Path(settings.path), key), _LocalRecipes(Path(local_folder), key)
            self._places = _Places(settings, entry, disk, Revisions(settings.kept_revisions, os.environ))
        self._board, self._stop = board, stop
        self._entry_damaged = False
        self._outcome, self._reason = SharedRecipesOutcome.MISS, ""
        self._clock, self._restore_seconds = clock, 0.0

    def restore(self) -> None:
        """Copy the existing recipes of the key to the disk of this pod. Raises Stopped."""
        if self._places:
            self._restore(self._places)
        elif self._enabled:
            self._report_outcome(SharedRecipesOutcome.MISS, "The engine keeps no compiled code in this execution mode.")

    def publish(self) -> None:
        """Add the recipes that this pod compiled to the shared recipes. Raises Stopped."""
        if not self._places:
            return
        settings = self._places.settings
        try:
            reason = self._publish(self._places)
        except (OSError, ManifestMismatch) as error:
            reason = f"Recipes cannot be written into {settings.path}: {error}."
        if reason:
            is_hit = self._outcome is SharedRecipesOutcome.HIT
            self._report_outcome(SharedRecipesOutcome.HIT if is_hit else SharedRecipesOutcome.MISS, reason)

    def _restore(self, places: _Places) -> None:
        settings, entry = places.settings, places.entry
        # The mark protects the entry from removal until this process ends, even if the entry does not exist yet.
        hold_in_use_lock(Path(settings.path) / revision_mark_name(entry.key.digest, places.revisions.pod_revision()))
        started, outcome, reasons = self._clock(), SharedRecipesOutcome.SEEDING, list[str]()
        for name, source in _sources(settings, entry):
            try:
                if _copy_recipes(source, places.disk, self._touch_unless_stopped):
                    outcome = SharedRecipesOutcome.HIT
                    break
                reasons.append(f"{name} has no recipes for this software, card, model, dtype and parallelism yet.")
            except (OSError, ManifestMismatch) as error:
                self._entry_damaged |= name == settings.path
                reasons.append(f"The recipes in {name} are ignored: {error}.")
        self._restore_seconds = self._clock() - started
        self._report_outcome(outcome, " ".join(reasons))

    def _publish(self, places: _Places) -> str | None:
        """Return why recipes could not be added.

        Return None if no recipe is missing or another process adds recipes.
        """
        stored = self._read_stored_manifest(places.entry)
        new_manifest = places.disk.build_manifest(self._touch_unless_stopped, exclude=stored.files if stored else ())
        if not (new_manifest.files or stored):
            return f"Warm-up wrote no compiled code into {places.disk.folder}."
        with _try_write_lock(Path(places.settings.path)) as locked:
            if locked:
                return self._write_entry(places, new_manifest)
        log.info("Another process writes into %s, so this process does not add its recipes", places.settings.path)
        return None

    def _write_entry(self, places: _Places, new_manifest: RecipeManifest) -> str | None:
        settings, entry = places.settings, places.entry
        stored = self._read_stored_manifest(entry)
        union = new_manifest.merge_with(stored) if stored else new_manifest
        limit, available_bytes = format_bytes(settings.limit_bytes), settings.limit_bytes - union.size
        if available_bytes < 0:
            return f"The recipes take {format_bytes(union.size)}, but the limit of {settings.path} is {limit}. {ADVICE}"
        revisions = places.revisions.read_kept()
        other_bytes = clean_old_entries(
            Path(settings.path), entry.folder.name, available_bytes, settings.max_age_seconds, revisions
        )
        if other_bytes > available_bytes:
            usage = f"other recipes that pods use take {format_bytes(other_bytes)}"
            return f"The recipes take {format_bytes(union.size)} and {usage}, but the limit is {limit}. {ADVICE}"
        if stored is None or not union.matches(stored):
            entry.write(union, places.disk.folder, self._touch_unless_stopped, overwrite=self._entry_damaged)
            entry.remove_unlisted(union)
            files_text = plural(len(union.files), "file")
            log.info("Added recipes to %s: %s, %s", entry.folder, files_text, format_bytes(union.size))
        if self._outcome is SharedRecipesOutcome.SEEDING:
            self._report_outcome(SharedRecipesOutcome.SEEDED, self._reason)
        return None

    def _read_stored_manifest(self, entry: RecipeEntry) -> RecipeManifest | None:
        try:
            return None if self._entry_damaged else entry.read_manifest()
        except ManifestMismatch:
            return None

    def _touch_unless_stopped(self) -> None:
        raise_if_stopped(self._stop)
        self._board.restart_stall_clock()

    def _report_outcome(self, outcome: SharedRecipesOutcome, reason: str) -> None:
        self._outcome, self._reason = outcome, reason
        log.info("Shared recipes: %s. %s", outcome, reason)
        report = SharedRecipesReport(outcome=outcome, reason=reason[:2048] or None, seconds=self._restore_seconds)
        self._board.update(shared_recipes=report)


@contextmanager
def _try_write_lock(root: Path) -> Iterator[bool]:
    """Yield True if only this process may write into `root` during the block. Raises OSError."""
    with (root / "lock").open("a+") as lock:
        yield try_lock(lock)


def _sources(settings: SharedRecipesConfig, entry: RecipeEntry) -> Iterator[tuple[str, RecipeEntry]]:
    """Yield the sources of recipes: first the volume with its `entry`, then the image."""
    yield settings.path, entry
    if seed := settings.seed:
        yield seed, RecipeEntry(Path(seed), entry.key)


def _copy_recipes(source: RecipeEntry, disk: _LocalRecipes, heartbeat: Heartbeat) -> bool:
    """Copy the files of the entry to the disk. Return False if there is no entry."""
    for attempt in range(1, LOOKS + 1):
        manifest = source.read_manifest()
        if manifest is None:
            return False
        try:
            disk.add(source, manifest, heartbeat)
            break
        except ManifestMismatch:
            if attempt == LOOKS:
                raise
    return True
