"""Removal of shared recipe entries that are unneeded, too old, or unused for the longest time."""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.artifacts.lock import try_lock
from gaudi_runtime.artifacts.recipe_cache.entry import remove_entry
from gaudi_runtime.artifacts.recipe_cache.revisions import RevisionId, is_needed, parse_mark_name
from gaudi_runtime.artifacts.sources.snapshots import bytes_below
from gaudi_runtime.contract.config import KeptRevisions

_DIGEST = re.compile(r"[0-9a-f]{16}")
_HALF_REMOVED = "*.gone"
SETTLING_SECONDS = 3600.0
"""Entries used within this time are kept, because the kubelet updates the revisions in a pod minutes later."""


@dataclass(frozen=True)
class EntryUsage:
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


def select_entries_to_remove(entries: Iterable[EntryUsage], room: int, max_age_seconds: float) -> list[str]:
    """Return the names of entries to remove, so that at most `room` bytes are left.

    Entries in use are never removed.
    """
    entries = sorted(entries, key=lambda each: -each.unused_seconds)
    gone = [each for each in entries if each.is_expired(max_age_seconds)]
    taken = sum(each.size for each in entries) - sum(each.size for each in gone)
    for each in entries:
        if taken > room and not each.in_use and each not in gone:
            gone.append(each)
            taken -= each.size
    return [each.name for each in gone]


def remove_old_entries(root: Path, but: str, room: int, max_age_seconds: float, kept: KeptRevisions | None) -> int:
    """Remove entries that are too old or do not fit, except `but`. Return the bytes of the other remaining entries.

    `kept` contains the revisions that can still run, or is None if they are unknown. The caller must have the lock.
    """
    for half in root.glob(_HALF_REMOVED):
        remove_entry(half)
    marks = _find_marks(root)
    others = list(_find_entries(root, but, marks, kept))
    gone = select_entries_to_remove(others, room, max_age_seconds)
    for name in gone:
        remove_entry(root / name)
    _remove_stale_marks(root, marks, kept)
    return sum(each.size for each in others if each.name not in gone)


@dataclass(frozen=True)
class _Mark:
    file: Path
    user: RevisionId | None

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
    found = defaultdict(list)
    for file in root.glob("*.use"):
        if mark := parse_mark_name(file.name):
            digest, user = mark
            found[digest].append(_Mark(file, user))
    return found


def _find_entries(
    root: Path, but: str, marks: dict[str, list[_Mark]], kept: KeptRevisions | None
) -> Iterator[EntryUsage]:
    for folder in root.iterdir():
        if folder.name != but and folder.is_dir() and _DIGEST.fullmatch(folder.name):
            own = marks.get(folder.name, [])
            unused = [each.unused_seconds for each in own] or [time.time() - folder.stat().st_mtime]
            yield EntryUsage(
                name=folder.name,
                size=bytes_below(folder),
                unused_seconds=min(unused),
                in_use=any(each.in_use for each in own),
                needed=is_needed([each.user for each in own], kept),
            )


def _remove_stale_marks(root: Path, marks: dict[str, list[_Mark]], kept: KeptRevisions | None) -> None:
    """Remove marks whose entry or revision no longer exists."""
    # Each revision leaves one mark for each entry. Without this cleanup, the marks of thousands of revisions would
    # accumulate.
    for digest, own in marks.items():
        there = (root / digest).exists()
        for mark in own:
            settled = mark.unused_seconds > SETTLING_SECONDS
            if settled and not (there and is_needed([mark.user], kept)) and not mark.in_use:
                mark.file.unlink(missing_ok=True)
