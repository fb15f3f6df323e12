"""Which entries of the shared recipes have to go: too old, or the longest unused where room is short."""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gaudi_runtime.recipe_cache.entry import remove
from gaudi_runtime.sources.lock import try_lock
from gaudi_runtime.sources.store import bytes_below

_DIGEST = re.compile(r"[0-9a-f]{16}")
_HALF_REMOVED = "*.gone"


@dataclass(frozen=True)
class Kept:
    """An entry: its bytes, the seconds since a start used it last, and whether a running process has taken it."""

    name: str
    size: int
    unused_seconds: float
    in_use: bool


def to_remove(entries: Iterable[Kept], room: int, max_age_seconds: float) -> list[str]:
    """Names to remove so that at most `room` bytes are left, as far as entries that are not in use allow it."""
    entries = tuple(entries)
    taken, gone = sum(each.size for each in entries), []
    for each in sorted(entries, key=lambda each: -each.unused_seconds):
        if not each.in_use and (each.unused_seconds > max_age_seconds or taken > room):
            gone.append(each.name)
            taken -= each.size
    return gone


def clean(root: Path, but: str, room: int, max_age_seconds: float) -> int:
    """Remove what has to go of all entries `but` one, for who has the turn to write; bytes of those that stay."""
    for half in root.glob(_HALF_REMOVED):
        remove(half)
    others = list(_kept(root, but))
    gone = to_remove(others, room, max_age_seconds)
    for name in gone:
        remove(root / name)
        _mark(root, name).unlink(missing_ok=True)
    return sum(each.size for each in others if each.name not in gone)


def _kept(root: Path, but: str) -> Iterator[Kept]:
    for folder in root.iterdir():
        if folder.name != but and folder.is_dir() and _DIGEST.fullmatch(folder.name):
            mark = _mark(root, folder.name)
            used = mark.stat().st_mtime if mark.exists() else folder.stat().st_mtime
            yield Kept(folder.name, bytes_below(folder), time.time() - used, _in_use(mark))


def _in_use(mark: Path) -> bool:
    if not mark.exists():
        return False
    with mark.open("a+") as file:
        return not try_lock(file)


def _mark(root: Path, name: str) -> Path:
    return root / f"{name}.use"
