"""A remote entry of recipes in an object store: the same files as on a volume (entry.py), but read-only."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from gaudi_runtime.artifacts.recipe_cache.entry import Heartbeat, hash_pieces, write_and_yield
from gaudi_runtime.artifacts.recipe_cache.manifest import (
    MAX_MANIFEST_BYTES,
    EntryUnusable,
    Manifest,
    StoredFile,
    parse_manifest,
)
from gaudi_runtime.artifacts.recipe_cache.object_store import HttpStore, NoSuchObject, StoreUnavailable
from gaudi_runtime.artifacts.recipe_cache.signature import MAX_SIGNATURE_BYTES, check_signature
from gaudi_runtime.artifacts.transfer import call_with_retries, run_concurrently
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.units import format_bytes

Answer = TypeVar("Answer")
PAUSES = (1.0, 4.0)
"""Seconds between the attempts to read one object."""


class RemoteEntry:
    """The remote entry of recipes of `key` in a store, with at most `limit_bytes`, to be read within `seconds`."""

    def __init__(
        self,
        store: HttpStore,
        key: RecipeKey,
        limit_bytes: int,
        seconds: float,
        heartbeat: Heartbeat,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.monotonic,
        public_key: str | None = None,
    ) -> None:
        """Start the deadline of `seconds` now. `heartbeat` is called for every piece, from several threads.

        `clock` returns monotonic seconds. If `public_key` (PEM) is set, an entry is read only if the holder of the key
        has signed it.
        """
        self._public_key = public_key
        self._store, self._key, self._limit_bytes = store, key, limit_bytes
        self._heartbeat, self._pauses, self._clock = heartbeat, pauses, clock
        self._timeout_seconds, self._deadline = seconds, clock() + seconds
        self._failed = threading.Event()

    def read_manifest(self) -> Manifest | None:
        """Read the manifest; None if there is no entry. Raises EntryUnusable, or the errors of `heartbeat`."""
        self._failed.clear()
        try:
            content = self._call_with_retries(lambda: b"".join(self._read_object("manifest", MAX_MANIFEST_BYTES)))
        except NoSuchObject:
            return None
        if self._public_key:
            check_signature(content, self._read_signature(), self._public_key)
        manifest = parse_manifest(content.decode(errors="replace"), self._key)
        if manifest.size > self._limit_bytes:
            raise EntryUnusable(
                f"the recipes take {format_bytes(manifest.size)}, but the limit is {format_bytes(self._limit_bytes)}. "
                "Raise spec.recipeCache.size"
            )
        return manifest

    def _read_signature(self) -> bytes:
        try:
            return self._call_with_retries(lambda: b"".join(self._read_object("manifest.sig", MAX_SIGNATURE_BYTES)))
        except NoSuchObject as error:
            raise EntryUnusable("manifest.sig is missing, but publicKey is set") from error

    def copy(self, files: Iterable[tuple[str, StoredFile]], folder: Path, heartbeat: Heartbeat) -> None:
        """Copy files as Entry.copy() does. The first failure cancels the other copies."""
        tasks = [partial(self._download_file, path, expected, folder / path) for path, expected in files]
        run_concurrently(tasks, self._failed, "recipes")

    def _download_file(self, path: str, expected: StoredFile, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._call_with_retries(lambda: self._write_object(path, expected, target))
        except NoSuchObject as error:
            raise EntryUnusable(f"the file {path} is missing") from error

    def _write_object(self, path: str, expected: StoredFile, target: Path) -> None:
        """Write one object to a file. Each retry starts from the first byte, because objects are small."""
        with target.open("wb") as file:
            pieces = self._read_object(f"objects/{expected.sha256}", expected.size)
            received = hash_pieces(write_and_yield(pieces, file))
        if received != expected:
            raise StoreUnavailable(f"the file {path} does not match its checksum in the manifest")
        target.chmod(0o755)  # stores keep no modes, and some compiled files must be executable

    def _read_object(self, name: str, max_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of one object. An object may have at most `max_bytes` bytes."""
        self._raise_if_ended()  # checked before each attempt, so that none begins after the deadline
        received_bytes = 0
        for piece in self._store.read_object(f"{self._key.digest}/{name}"):
            self._raise_if_ended()
            received_bytes += len(piece)
            if received_bytes > max_bytes:  # an endless answer must fill neither memory nor disk
                raise EntryUnusable(f"the object {name} is larger than {format_bytes(max_bytes)}")
            yield piece

    def _call_with_retries(self, run: Callable[[], Answer]) -> Answer:
        try:
            return call_with_retries(run, StoreUnavailable, self._pauses, lambda seconds, _: self._failed.wait(seconds))
        except StoreUnavailable as error:
            raise EntryUnusable(str(error)) from error

    def _raise_if_ended(self) -> None:
        self._heartbeat()
        if self._failed.is_set():
            raise EntryUnusable("another file of the store could not be read")
        if self._clock() > self._deadline:
            raise EntryUnusable(f"the recipes were not read within {self._timeout_seconds:.0f} s")
