"""Slots: at most one running node uses a set of addresses, an image store and a cgroup."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.sandbox import network
from localcluster.sandbox.addresses import SLOTS, Addresses

# Not in the cache, because addresses belong to the machine, and its users may have different caches.
LOCKS = Path("/run/lock/gaudi-operator")
_RELEASE_SECONDS = 1.0


def take(locks: Path = LOCKS, has_link: Callable[[str], bool] = network.has_link) -> tuple[int, int]:
    """Return (slot, open file): the first free slot, and its lock file in the folder `locks`.

    The slot is held while the file is open. A sandbox inherits the open file, so the end of the sandbox frees the slot.
    """
    for slot in range(SLOTS):
        lock = _try_lock(locks, slot)
        if lock is None:
            continue
        if not has_link(Addresses(slot).link):  # the link may belong to a node in a container of this machine
            return slot, lock
        os.close(lock)
    raise LocalClusterError(f"{SLOTS} local clusters are running. Stop one with `python -m localcluster down`.")


@contextmanager
def try_hold(slot: int, locks: Path = LOCKS) -> Iterator[bool]:
    """Lock `slot` during the block. Yields False if another cluster has taken the slot.

    A sandbox that was just killed takes a moment to free its slot.
    """
    deadline = time.monotonic() + _RELEASE_SECONDS
    while (lock := _try_lock(locks, slot)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _try_lock(locks: Path, slot: int) -> int | None:
    locks.mkdir(parents=True, exist_ok=True)
    lock = os.open(locks / str(slot), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
