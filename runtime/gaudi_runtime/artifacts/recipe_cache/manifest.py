"""The manifest of an entry of the shared recipes, as text. Pure.

The first line is the SHA-256 of the rest. So a truncated manifest cannot be mistaken for a small one. The rest contains
the key, each file's path, checksum and bytes, and the journal of the warm-ups that made the files
(docs/how-to/recipe-cache.md).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from gaudi_runtime.contract.base import WireModel
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.warmup.journal import JournalRecipes, JournalUnusable, format_journal, parse_journal

MAX_MANIFEST_BYTES = 128 * 1024 * 1024
"""The largest manifest: twice the journal of the most buckets."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ManifestMismatch(Exception):
    """The error that an entry does not match its manifest. The message is the reason, as the end of a sentence."""


class ManifestFile(WireModel):
    """A file of an entry. Files with equal contents are stored once, under their checksum."""

    sha256: Sha256
    size: Annotated[int, Field(ge=0)] = Field(description="Bytes.")


class _Body(WireModel):
    format: Literal[1] = 1
    key: dict[str, str]
    files: dict[str, ManifestFile]
    journal: str


@dataclass(frozen=True)
class RecipeManifest:
    """The files of an entry by their relative paths, and the seconds of the steps that made them."""

    files: Mapping[str, ManifestFile]
    recipes: JournalRecipes

    @property
    def size(self) -> int:
        """The bytes of all files. Files with equal contents count once."""
        return sum({file.sha256: file.size for file in self.files.values()}.values())

    def merge_with(self, stored: "RecipeManifest") -> "RecipeManifest":
        """Return the files and steps of both manifests."""
        # A stored file replaces the new one: another start has already used the stored file, but the new one may come
        # from a killed process.
        return RecipeManifest({**self.files, **stored.files}, self.recipes.merge_with(stored.recipes))

    def matches(self, stored: "RecipeManifest") -> bool:
        """Return True if `stored` has the same files and steps. The seconds of a step may differ."""
        return self.files == stored.files and self.recipes.seconds.keys() == stored.recipes.seconds.keys()


def format_recipe_manifest(manifest: RecipeManifest, key: RecipeKey) -> str:
    """Return the text of a manifest of the entry of `key`."""
    body = _Body(
        key=asdict(key), files=dict(manifest.files), journal=format_journal(manifest.recipes, key)
    ).model_dump_json()
    return f"{_checksum(body)}\n{body}"


def parse_recipe_manifest(text: str, key: RecipeKey) -> RecipeManifest:
    """Return the manifest in `text`.

    Raises ManifestMismatch if the text is damaged, has another key, or names files outside the folder of the entry.
    """
    checksum, _, body = text.partition("\n")
    if checksum != _checksum(body):
        raise ManifestMismatch("the manifest does not match its checksum")
    try:
        content = _Body.model_validate_json(body)
    except ValidationError as error:
        raise ManifestMismatch(f"the manifest has an unknown format ({error.errors()[0]['msg']})") from error
    if content.key != asdict(key):
        raise ManifestMismatch("the manifest is for other software or for another card, model, dtype or parallelism")
    if outside_paths := [path for path in content.files if not _is_inside(path)]:
        raise ManifestMismatch(
            f"the manifest lists a file outside the folder of the recipes: {outside_paths[0][:80]!r}"
        )
    try:
        return RecipeManifest(content.files, parse_journal(content.journal, key))
    except JournalUnusable as error:
        raise ManifestMismatch(f"the journal in the manifest is unusable: {error}") from error


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
