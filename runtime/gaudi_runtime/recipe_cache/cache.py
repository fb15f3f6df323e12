"""The shared recipes as two steps of start-up: take before the engine loads, publish after warm-up.

Engines compile into a folder of the pod's own disk, never on the volume. Nothing here can fail a start: what cannot be
used or written is a reason in the report (docs/warmup.md, Recipe cache).
"""

import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gaudi_runtime.contract.config import RuntimeConfig, SharedRecipes
from gaudi_runtime.contract.report import RecipeOutcome, SharedRecipesReport
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.recipe_cache.cleaning import clean
from gaudi_runtime.recipe_cache.entry import Entry, files_below
from gaudi_runtime.recipe_cache.manifest import EntryUnusable, Manifest
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.sources.lock import try_lock, use
from gaudi_runtime.warmup.journal import Journal
from gaudi_runtime.warmup.log_lines import size
from gaudi_runtime.warmup.recipes import JOURNAL_PREFIX
from gaudi_runtime.warmup.stop import raise_if_stopped

log = logging.getLogger(__name__)

STAGING = ".taking"
LOOKS = 2
"""A writer may replace an entry while it is read: what it dropped is looked for once more."""


class RecipeCache:
    """The recipes of one start. `key` is None for an engine that keeps none."""

    def __init__(self, config: RuntimeConfig, key: RecipeKey | None, board: ReportBoard, stop: threading.Event) -> None:
        """Nothing is looked at yet."""
        self._shared = config.shared_recipes if config.warmup.enabled and config.recipe_cache_dir else None
        self._local = Path(config.recipe_cache_dir or "")
        self._key, self._board, self._stop = key, board, stop
        self._damaged = False
        self._told: SharedRecipesReport | None = None

    def take(self) -> None:
        """Copy what is there for the key into the pod's own folder. Raises Stopped."""
        if self._shared is None:
            return
        if self._key is None:
            self._tell(RecipeOutcome.MISS, "The engine keeps no compiled code in this execution mode.")
            return
        try:
            self._take(self._shared, self._key)
        except OSError as error:
            self._tell(RecipeOutcome.SEEDING, f"No recipes can be copied into {self._local} ({error}).")

    def publish(self) -> None:
        """Add what was made here to what is there. Raises Stopped."""
        if self._shared is None or self._key is None or self._told is None:
            return
        try:
            self._publish(self._shared, self._key)
        except (OSError, EntryUnusable) as error:
            self._not_published(f"Nothing can be written into {self._shared.path} ({error}).")

    def _take(self, shared: SharedRecipes, key: RecipeKey) -> None:
        use(Entry(Path(shared.path), key).mark)
        shutil.rmtree(self._local / STAGING, ignore_errors=True)
        reasons = []
        for folder in filter(None, (shared.path, shared.seed)):
            try:
                if self._bring(Entry(Path(folder), key)):
                    self._tell(RecipeOutcome.HIT, " ".join(reasons) or None)
                    return
                reasons.append(f"{folder} has no recipes of this software, card, model, dtype and parallelism yet.")
            except (OSError, EntryUnusable) as error:
                self._damaged |= folder == shared.path
                reasons.append(f"The recipes in {folder} are ignored: {error}.")
        self._tell(RecipeOutcome.SEEDING, " ".join(reasons))

    def _bring(self, entry: Entry) -> bool:
        """Whether the entry is there; its files are in the folder of this pod then, all of them or none."""
        for look in range(1, LOOKS + 1):
            manifest = entry.read()
            if manifest is None:
                return False
            try:
                self._stage(entry, manifest)
                break
            except EntryUnusable:
                if look == LOOKS:
                    raise
            finally:
                shutil.rmtree(self._local / STAGING, ignore_errors=True)
        return True

    def _stage(self, entry: Entry, manifest: Manifest) -> None:
        staging = self._local / STAGING
        missing = [(path, file) for path, file in manifest.files.items() if not (self._local / path).exists()]
        staging.mkdir(parents=True)
        entry.copy(missing, staging, self._alive)
        for path, _ in missing:
            place = self._local / path
            place.parent.mkdir(parents=True, exist_ok=True)
            (staging / path).replace(place)
        with self._journal() as journal:
            for step, seconds in manifest.recipes.seconds.items():
                if step not in journal.recipes.seconds:
                    journal.write(step, seconds)

    def _publish(self, shared: SharedRecipes, key: RecipeKey) -> None:
        with self._journal() as journal:
            mine = Manifest(files_below(self._local, _is_no_recipe, self._alive), journal.recipes)
        root = Path(shared.path)
        if not mine.files:
            self._not_published(f"Warm-up left no compiled code in {self._local}.")
            return
        with _turn(root) as ours:
            if ours:
                self._write(shared, Entry(root, key), mine)
            else:
                log.info("Another process writes into %s: what this one has made is not added", root)

    def _write(self, shared: SharedRecipes, entry: Entry, mine: Manifest) -> None:
        stored = self._stored(entry)
        both = mine.and_that_of(stored) if stored else mine
        wished = both if both.size <= shared.limit_bytes else mine
        room = shared.limit_bytes - wished.size
        left = clean(Path(shared.path), entry.folder.name, room, shared.max_age_seconds)
        if left > room:
            self._not_published(
                f"{size(wished.size)} of recipes have no room beside {size(left)} of others in {shared.path}, which "
                f"may hold {size(shared.limit_bytes)}: raise spec.recipeCache.size."
            )
            return
        if stored is None or not _same(stored, wished):
            entry.write(wished, self._local, self._alive, anew=self._damaged)
            entry.drop_unnamed(wished)
            log.info("Added recipes to %s: %d files, %s", entry.folder, len(wished.files), size(wished.size))
        if self._told and self._told.outcome is RecipeOutcome.SEEDING:
            self._tell(RecipeOutcome.SEEDED, self._told.reason)

    def _stored(self, entry: Entry) -> Manifest | None:
        try:
            return None if self._damaged else entry.read()
        except EntryUnusable:
            return None

    @contextmanager
    def _journal(self) -> Iterator[Journal]:
        journal = Journal(str(self._local), self._key)
        try:
            yield journal
        finally:
            journal.close()

    def _alive(self) -> None:
        raise_if_stopped(self._stop)
        self._board.touch()

    def _not_published(self, reason: str) -> None:
        """What was taken stays taken."""
        hit = self._told is not None and self._told.outcome is RecipeOutcome.HIT
        self._tell(RecipeOutcome.HIT if hit else RecipeOutcome.MISS, reason)

    def _tell(self, outcome: RecipeOutcome, reason: str | None) -> None:
        self._told = SharedRecipesReport(outcome=outcome, reason=reason[:2048] if reason else None)
        log.info("Shared recipes: %s%s", outcome, f". {reason}" if reason else "")
        self._board.update(shared_recipes=self._told)


@contextmanager
def _turn(root: Path) -> Iterator[bool]:
    """Whether this process alone may write into `root` while the block runs. Raises OSError."""
    with (root / "lock").open("a+") as lock:
        yield try_lock(lock)


def _same(stored: Manifest, wished: Manifest) -> bool:
    return stored.files == wished.files and stored.recipes.seconds.keys() == wished.recipes.seconds.keys()


def _is_no_recipe(path: str) -> bool:
    """Journals travel in manifests; locks and unfinished files are of one process only."""
    name = path.rsplit("/", 1)[-1]
    return path.startswith((f"{STAGING}/", JOURNAL_PREFIX)) or name.endswith((".lock", ".tmp", ".new"))
