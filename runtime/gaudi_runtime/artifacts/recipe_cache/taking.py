"""The recipes of one key to the disk of a pod: from the first place that has them whole."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.artifacts.recipe_cache.disk import Disk
from gaudi_runtime.artifacts.recipe_cache.entry import Alive, Entry, Source
from gaudi_runtime.artifacts.recipe_cache.http_store import http_store
from gaudi_runtime.artifacts.recipe_cache.manifest import EntryUnusable
from gaudi_runtime.artifacts.recipe_cache.remote_entry import RemoteEntry
from gaudi_runtime.contract.config import RecipeStore, SharedRecipes
from gaudi_runtime.engines.protocol import RecipeKey

LOOKS = 2
"""A writer may replace an entry while it is read: what it dropped is looked for once more."""


@dataclass(frozen=True)
class Taken:
    """Whether recipes are on the disk now, why places were passed over, and whether the volume's own are damaged."""

    hit: bool
    reason: str
    damaged: bool


def take(shared: SharedRecipes, entry: Entry, disk: Disk, alive: Alive) -> Taken:
    """Look into the volume, whose `entry` it is, then into the image, then into the store. Raises what `alive` does."""
    reasons: list[str] = []
    damaged = False
    for name, source in _sources(shared, entry, alive):
        try:
            if _bring(source(), disk, alive):
                return Taken(True, " ".join(reasons), damaged)
            reasons.append(f"{name} has no recipes of this software, card, model, dtype and parallelism yet.")
        except (OSError, EntryUnusable) as error:
            damaged |= name == shared.path
            reasons.append(f"The recipes in {name} are ignored: {error}.")
    return Taken(False, " ".join(reasons), damaged)


def _sources(shared: SharedRecipes, entry: Entry, alive: Alive) -> Iterator[tuple[str, Callable[[], Source]]]:
    yield shared.path, lambda: entry
    if seed := shared.seed:
        yield seed, lambda: Entry(Path(seed), entry.key)
    if store := shared.store:
        yield store.url, lambda: _remote(store, entry.key, shared.limit_bytes, alive)


def _remote(store: RecipeStore, key: RecipeKey, limit_bytes: int, alive: Alive) -> RemoteEntry:
    return RemoteEntry(http_store(store, os.environ), key, limit_bytes, store.timeout_seconds, alive)


def _bring(source: Source, disk: Disk, alive: Alive) -> bool:
    """Whether the entry is there; its files are on the disk then."""
    for look in range(1, LOOKS + 1):
        manifest = source.read()
        if manifest is None:
            return False
        try:
            disk.add(source, manifest, alive)
            break
        except EntryUnusable:
            if look == LOOKS:
                raise
    return True
