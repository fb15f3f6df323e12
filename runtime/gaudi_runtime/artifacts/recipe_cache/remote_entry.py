"""One entry of recipes below an HTTP(S) address: the same files as on a volume (entry.py), only read."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from gaudi_runtime.artifacts.recipe_cache.entry import Alive
from gaudi_runtime.artifacts.recipe_cache.http_store import HttpStore, NoSuchObject, StoreAway
from gaudi_runtime.artifacts.recipe_cache.manifest import (
    MAX_MANIFEST_BYTES,
    EntryUnusable,
    Manifest,
    StoredFile,
    parse_manifest,
)
from gaudi_runtime.artifacts.transfer import all_at_once, persistently
from gaudi_runtime.engines.protocol import RecipeKey
from gaudi_runtime.units import size

Answer = TypeVar("Answer")

PAUSES = (1.0, 4.0)
"""Seconds between the tries for one object."""


class RemoteEntry:
    """The recipes of `key` in a store, of which at most `limit_bytes` are taken, and within `seconds` from now on."""

    def __init__(
        self,
        store: HttpStore,
        key: RecipeKey,
        limit_bytes: int,
        seconds: float,
        alive: Alive,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`alive` hears of every piece, from several threads; `clock` gives monotonic seconds."""
        self._store, self._key, self._limit = store, key, limit_bytes
        self._alive, self._pauses, self._clock = alive, pauses, clock
        self._seconds, self._until = seconds, clock() + seconds
        self._ended = threading.Event()

    def read(self) -> Manifest | None:
        """What it says that it holds, None where there is no entry. Raises EntryUnusable, or what `alive` does."""
        self._ended.clear()
        try:
            content = self._persistently(lambda: b"".join(self._pieces("manifest", MAX_MANIFEST_BYTES)))
        except NoSuchObject:
            return None
        manifest = parse_manifest(content.decode(errors="replace"), self._key)
        if manifest.size > self._limit:
            raise EntryUnusable(f"it has {size(manifest.size)}, which are more than {size(self._limit)}")
        return manifest

    def copy(self, files: Iterable[tuple[str, StoredFile]], target: Path, alive: Alive) -> None:
        """As Entry.copy(), with the `alive` that this was made with; the first file that fails ends the others."""
        tasks = [partial(self._bring, path, stated, target / path) for path, stated in files]
        all_at_once(tasks, self._ended, "recipes")

    def _bring(self, path: str, stated: StoredFile, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._persistently(lambda: self._write(path, stated, place))
        except NoSuchObject as error:
            raise EntryUnusable(f"{path} is missing in it") from error

    def _write(self, path: str, stated: StoredFile, place: Path) -> None:
        """Anew with each try: what is in one object is small beside what is in all."""
        digest, count = hashlib.sha256(), 0
        with place.open("wb") as file:
            for piece in self._pieces(f"objects/{stated.sha256}", stated.size):
                file.write(piece)
                digest.update(piece)
                count += len(piece)
        if StoredFile(sha256=digest.hexdigest(), size=count) != stated:
            raise StoreAway(f"{path} is not as its checksum says")
        place.chmod(0o755)  # Stores keep no modes, and some of what engines compile is to be executed.

    def _pieces(self, name: str, most: int) -> Iterator[bytes]:
        """Stops behind `most` bytes: an answer without end must fill neither memory nor disk."""
        count = 0
        for piece in self._store.pieces(f"{self._key.digest}/{name}"):
            self._look()
            count += len(piece)
            if count > most:
                raise EntryUnusable(f"{name} in it is larger than {size(most)}")
            yield piece

    def _persistently(self, ask: Callable[[], Answer]) -> Answer:
        def look_and_ask() -> Answer:
            self._look()
            return ask()

        try:
            return persistently(look_and_ask, StoreAway, self._pauses, lambda seconds, _: self._ended.wait(seconds))
        except StoreAway as error:
            raise EntryUnusable(str(error)) from error

    def _look(self) -> None:
        self._alive()
        if self._ended.is_set():
            raise EntryUnusable("another of its files could not be had")
        if self._clock() > self._until:
            raise EntryUnusable(f"it did not come within {self._seconds:.0f} s")
