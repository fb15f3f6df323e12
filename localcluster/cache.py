"""The cache between runs, with locks so that two concurrent runs do not create the same folder twice."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localcluster.progress import console


def cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/gaudi-operator`, by default `~/.cache/gaudi-operator`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaudi-operator"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Lock the file `path` during the block. The kernel releases the lock when this process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(f"[dim]…[/dim] waiting for another run that holds {path.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure_cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return the cached folder `name`, which `make` fills on the first call. Incomplete folders are created again."""
    folder = cache_dir() / name
    if folder.exists():
        return folder
    with exclusive(cache_dir() / "locks" / name):
        if not folder.exists():
            draft = folder.with_name(f".{name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            make(draft)
            draft.rename(folder)
    return folder
