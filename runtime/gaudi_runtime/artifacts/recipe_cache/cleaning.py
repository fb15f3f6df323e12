"""Removal of shared recipe entries that are unneeded, too old, or unused for the longest time."""

import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.artifacts.lock import try_lock
from gaudi_runtime.artifacts.recipe_cache.entry import remove_entry
from gaudi_runtime.artifacts.recipe_cache.revisions import (
    RecipeRevisionId,
    is_needed_by_revisions,
    parse_revision_mark_name,
)
from gaudi_runtime.artifacts.sources.snapshots import snapshot_bytes_below
from gaudi_runtime.contract.config import KeptRevisions

_DIGEST = re.compile(r"[0-9a-f]{16}")
_HALF_REMOVED = "*.gone"
SETTLING_SECONDS = 3600.0
"""Entries used within this time are kept, because the kubelet updates the revisions in a pod minutes later."""


@dataclass(frozen=True)
class CleaningCandidate:
    """An entry: its bytes, the seconds since the last start with the entry, and whether it is in use or needed."""

    name: str
    size: int
    unused_seconds: float
    in_use: bool
    needed: bool = True

    def is_expired(self, max_age_seconds: float) -> bool:
        """Return True if the entry must be removed even if the volume has enough space."""
        limit = max_age_seconds if self.needed else min(max_age_seconds, SETTLING_SECONDS)
        return not self.in_use and self.unused_seconds > limit


def select_entries_to_clean(entries: Iterable[CleaningCandidate], max_bytes: int, max_age_seconds: float) -> list[str]:
    """Return the names of entries to remove, so that at most `max_bytes` are left.

    Entries in use are never removed.
    """
    entries = sorted(entries, key=lambda entry: -entry.unused_seconds)
    removed_entries = [entry for entry in entries if entry.is_expired(max_age_seconds)]
    used_bytes = sum(entry.size for entry in entries) - sum(entry.size for entry in removed_entries)
    for entry in entries:
        if used_bytes > max_bytes and not entry.in_use and entry not in removed_entries:
            removed_entries.append(entry)
            used_bytes -= entry.size
    return [entry.name for entry in removed_entries]


def clean_old_entries(
    root: Path, keep: str, max_bytes: int, max_age_seconds: float, revisions: KeptRevisions | None
) -> int:
    """Remove entries that are too old or do not fit, except `keep`. Return the bytes of the other remaining entries.

    `revisions` contains the revisions that can still run, or is None if they are unknown. The caller must have the
    lock.
    """
    for folder in root.glob(_HALF_REMOVED):
        shutil.rmtree(folder, ignore_errors=True)
    marks = _find_marks(root)
    entries = list(_find_entries(root, keep, marks, revisions))
    removed_names = select_entries_to_clean(entries, max_bytes, max_age_seconds)
    for name in removed_names:
        remove_entry(root / name)
    _remove_stale_marks(root, marks, revisions)
    return sum(entry.size for entry in entries if entry.name not in removed_names)


@dataclass(frozen=True)
class _Mark:
    file: Path
    user: RecipeRevisionId | None

    @property
    def unused_seconds(self) -> float:
        return time.time() - self.file.stat().st_mtime

    @property
    def in_use(self) -> bool:
        try:
            with self.file.open("a+") as file:
                return not try_lock(file)
        except OSError:
            return True  # a file of another user cannot be locked, so its entry is kept


def _find_marks(root: Path) -> dict[str, list[_Mark]]:
    """Return the marks by entry, including marks of entries that do not exist."""
    marks = defaultdict(list)
    for file in root.glob("*.use"):
        if parsed := parse_revision_mark_name(file.name):
            digest, user = parsed
            marks[digest].append(_Mark(file, user))
    return marks


def _find_entries(
    root: Path, keep: str, marks: dict[str, list[_Mark]], revisions: KeptRevisions | None
) -> Iterator[CleaningCandidate]:
    for folder in root.iterdir():
        if folder.name != keep and folder.is_dir() and _DIGEST.fullmatch(folder.name):
            entry_marks = marks.get(folder.name, [])
            unused_seconds = [mark.unused_seconds for mark in entry_marks] or [time.time() - folder.stat().st_mtime]
            yield CleaningCandidate(
                name=folder.name,
                size=snapshot_bytes_below(folder),
                unused_seconds=min(unused_seconds),
                in_use=any(mark.in_use for mark in entry_marks),
                needed=is_needed_by_revisions([mark.user for mark in entry_marks], revisions),
            )


def _remove_stale_marks(root: Path, marks: dict[str, list[_Mark]], revisions: KeptRevisions | None) -> None:
    """Remove marks whose entry or revision no longer exists."""
    # Each revision leaves one mark for each entry. Without this cleanup, the marks of thousands of revisions would
    # accumulate.
    for digest, entry_marks in marks.items():
        entry_exists = (root / digest).exists()
        for mark in entry_marks:
            settled = mark.unused_seconds > SETTLING_SECONDS
            if settled and not (entry_exists and is_needed_by_revisions([mark.user], revisions)) and not mark.in_use:
                mark.file.unlink(missing_ok=True)
