"""One entry of the shared recipes on disk.

DIGEST/manifest        the list of the entry's files; replaced by one rename
DIGEST/objects/        contents of files, named by their SHA-256; each file is created by one rename
DIGEST.*.use           locked by every process that started with the entry; its modification time is the last start
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from gaudi_runtime.artifacts.recipe_cache.manifest import (
    MAX_MANIFEST_BYTES,
    ManifestFile,
    ManifestMismatch,
    RecipeManifest,
    format_recipe_manifest,
    parse_recipe_manifest,
)
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.units import format_bytes

CHUNK_BYTES = 4 * 1024 * 1024
Heartbeat = Callable[[], None]
"""Called for each piece that is read; may raise to end the work."""


class RecipeEntry:
    """The entry of compiled recipes of `key` in the folder `root` of a volume, which may not exist yet."""

    def __init__(self, root: Path, key: RecipeKey) -> None:
        self.folder, self.key = root / key.digest, key
        self._manifest_file, self._objects_folder = self.folder / "manifest", self.folder / "objects"

    def read_manifest(self) -> RecipeManifest | None:
        """Read the manifest; None if there is no entry. Raises ManifestMismatch or OSError."""
        try:
            with self._manifest_file.open("rb") as file:
                content = file.read(MAX_MANIFEST_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(content) > MAX_MANIFEST_BYTES:
            raise ManifestMismatch(f"the manifest is larger than {format_bytes(MAX_MANIFEST_BYTES)}")
        return parse_recipe_manifest(content.decode(errors="replace"), self.key)

    def copy(self, files: Iterable[tuple[str, ManifestFile]], folder: Path, heartbeat: Heartbeat) -> None:
        """Copy files into `folder` and verify their checksums. Raises ManifestMismatch or OSError."""
        for path, expected in files:
            destination = folder / path
            destination.parent.mkdir(parents=True, exist_ok=True)
            try:
                copied = _copy_file(self._objects_folder / expected.sha256, destination, heartbeat)
            except FileNotFoundError as error:
                raise ManifestMismatch(f"the file {path} is missing") from error
            if copied != expected:
                raise ManifestMismatch(f"the file {path} does not match its checksum in the manifest")

    def write(self, manifest: RecipeManifest, source: Path, heartbeat: Heartbeat, *, overwrite: bool) -> None:
        """Publish `manifest` and copy missing files from `source`. The caller must have the lock.

        If `overwrite` is True, existing files are also written, because some of them are damaged. Raises OSError, or
        ManifestMismatch if a file has changed since the manifest was made.
        """
        self._objects_folder.mkdir(parents=True, exist_ok=True)
        self._drop_unfinished()
        for path, expected in manifest.files.items():
            if (source / path).is_file() and (overwrite or not self._has_file(expected)):
                self._store_file(source / path, expected, heartbeat)
        with _replace_atomically(self._manifest_file) as temporary_file:
            temporary_file.write_text(format_recipe_manifest(manifest, self.key))

    def remove_unlisted(self, manifest: RecipeManifest) -> None:
        """Remove stored contents that `manifest` does not list."""
        checksums = {file.sha256 for file in manifest.files.values()}
        for path in self._objects_folder.iterdir():
            if path.name not in checksums:
                path.unlink(missing_ok=True)

    def _drop_unfinished(self) -> None:
        """Remove the files that a killed writer left, because these files use disk space."""
        for path in [*self._objects_folder.glob("*.*"), *self.folder.glob("manifest.*")]:
            path.unlink(missing_ok=True)

    def _has_file(self, file: ManifestFile) -> bool:
        try:
            return (self._objects_folder / file.sha256).stat().st_size == file.size
        except FileNotFoundError:
            return False

    def _store_file(self, file: Path, expected: ManifestFile, heartbeat: Heartbeat) -> None:
        with _replace_atomically(self._objects_folder / expected.sha256) as temporary_file:
            if _copy_file(file, temporary_file, heartbeat) != expected:
                raise ManifestMismatch(f"the file {file} changed during the copy")


@contextmanager
def _replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file that becomes `path` if the block succeeds. The file is removed if the disk is full."""
    temporary_file = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        yield temporary_file
        temporary_file.replace(path)
    finally:
        temporary_file.unlink(missing_ok=True)


def hash_entry_files(folder: Path, skip: Callable[[str], bool], heartbeat: Heartbeat) -> dict[str, ManifestFile]:
    """Return all files below `folder` with their checksums, except the paths that `skip` selects."""
    files = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder).as_posix()
        if file.is_file() and not file.is_symlink() and not skip(path):
            with file.open("rb") as content:
                files[path] = _hash_pieces(_read_pieces(content, heartbeat))
    return files


def remove_entry(folder: Path) -> None:
    """Remove one entry of recipes from the disk: first hide it by a rename, then delete its files."""
    # One rename hides the whole entry. Otherwise a reader could see an entry with half of its files.
    hidden_folder = folder.with_name(f"{folder.name}.{uuid4().hex}.gone")
    folder.rename(hidden_folder)
    shutil.rmtree(hidden_folder, ignore_errors=True)


def _copy_file(source: Path, target: Path, heartbeat: Heartbeat) -> ManifestFile:
    """Copy a file with its executable bit, and return its checksum and size."""
    with source.open("rb") as content, target.open("wb") as copy:
        os.fchmod(copy.fileno(), 0o755 if os.fstat(content.fileno()).st_mode & 0o100 else 0o644)
        return _hash_pieces(_write_and_yield(_read_pieces(content, heartbeat), copy))


def _read_pieces(content: BinaryIO, heartbeat: Heartbeat) -> Iterator[bytes]:
    heartbeat()
    while piece := content.read(CHUNK_BYTES):
        yield piece
        heartbeat()


def _write_and_yield(pieces: Iterator[bytes], copy: BinaryIO) -> Iterator[bytes]:
    for piece in pieces:
        copy.write(piece)
        yield piece


def _hash_pieces(pieces: Iterator[bytes]) -> ManifestFile:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return ManifestFile(sha256=digest.hexdigest(), size=size)
