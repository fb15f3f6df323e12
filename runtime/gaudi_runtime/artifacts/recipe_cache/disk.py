"""The folder on the pod's own disk that engines compile into, and the journal in it."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from gaudi_runtime.artifacts.recipe_cache.entry import Alive, Source, files_below
from gaudi_runtime.artifacts.recipe_cache.manifest import Manifest
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.warmup.journal import JOURNAL_PREFIX, Journal

STAGING = ".taking"
UNFINISHED = (".lock", ".tmp", ".new")


class Disk:
    """The recipes of `key` below `folder`."""

    def __init__(self, folder: Path, key: RecipeKey) -> None:
        self._folder, self._key = folder, key
        self._staging = folder / STAGING

    @property
    def folder(self) -> Path:
        """Where engines compile."""
        return self._folder

    def held(self, alive: Alive, but: Collection[str] = ()) -> Manifest:
        """The recipes that are here, `but` those of some paths; reads every file that it names. Raises OSError."""
        with self._journal() as journal:
            skip = lambda path: path in but or _is_no_recipe(path)  # noqa: E731
            return Manifest(files_below(self._folder, skip, alive), journal.recipes)

    def add(self, entry: Source, manifest: Manifest, alive: Alive) -> None:
        """Copy what is missing here, all or nothing. Raises EntryUnusable or OSError."""
        missing = [(path, file) for path, file in manifest.files.items() if not (self._folder / path).exists()]
        with self._empty_staging():
            entry.copy(missing, self._staging, alive)
            for path, _ in missing:
                place = self._folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                (self._staging / path).replace(place)
        with self._journal() as journal:
            for step, seconds in manifest.recipes.seconds.items():
                if step not in journal.recipes.seconds:
                    journal.write(step, seconds)

    @contextmanager
    def _empty_staging(self) -> Iterator[None]:
        """Also of what a killed process left in it."""
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self._staging, ignore_errors=True)

    @contextmanager
    def _journal(self) -> Iterator[Journal]:
        journal = Journal(str(self._folder), self._key)
        try:
            yield journal
        finally:
            journal.close()


def _is_no_recipe(path: str) -> bool:
    """Journals travel in manifests; locks and unfinished files are of one process only."""
    return path.startswith((f"{STAGING}/", JOURNAL_PREFIX)) or path.endswith(UNFINISHED)
