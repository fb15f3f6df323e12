"""Fetch a repository into a folder, once for all who share it (docs/model-sources.md)."""

import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from gaudi_runtime.contract.report import FetchProgress
from gaudi_runtime.errors import DiskFull, HubUnreachable
from gaudi_runtime.sources.download import bytes_of, download
from gaudi_runtime.sources.hub import Hub
from gaudi_runtime.sources.listing import Listing, RemoteFile, is_pinned, wanted
from gaudi_runtime.sources.progress import Progress
from gaudi_runtime.sources.store import Store
from gaudi_runtime.warmup.log_lines import size
from gaudi_runtime.warmup.stop import Stopped, raise_if_stopped

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

STREAMS = 4
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * 9)
"""Seconds between tries that bring no byte, about ten minutes in all."""


class Fetch:
    """One repository into one folder. `warn` gets sentences for the report, `touch` hears of every piece."""

    def __init__(
        self,
        hub: Hub,
        root: Path,
        stop: threading.Event,
        publish: Callable[[FetchProgress], None],
        warn: Callable[[str], None],
        touch: Callable[[], None] = lambda: None,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._hub, self._root, self._stop, self._warn = hub, root, stop, warn
        self._store = Store(root, hub.repo)
        self._touch, self._pauses = touch, pauses
        self._failed = threading.Event()
        self._progress = Progress(publish, self._alive)

    def run(self) -> Path:
        """The folder of the complete snapshot; a commit that is here already asks nobody.

        Raises a RuntimeStartError with a sentence, or Stopped once `stop` is set.
        """
        revision = self._hub.revision
        if is_pinned(revision) and (here := self._store.known(revision)):
            return here
        with self._store.locked(self._wait_for_other, self._stop):
            if is_pinned(revision) and (here := self._store.known(revision)):
                return here
            listing = self._listing()
            return listing if isinstance(listing, Path) else self._snapshot(listing)

    def _listing(self) -> Listing | Path:
        """What to fetch; where the hub is away, the snapshot that the branch or tag had when it was fetched last."""
        known = self._store.known(self._hub.revision)
        if known is None:
            return self._persistently(self._hub.listing)
        try:
            return self._hub.listing()
        except HubUnreachable as error:
            self._warn(f"{error} Commit {known.name}, fetched earlier, is taken for {self._hub.revision}.")
            return known

    def _snapshot(self, listing: Listing) -> Path:
        commit = listing.commit
        if not self._store.snapshot(commit).is_dir():
            files = wanted(self._hub.repo, listing)
            self._persistently(lambda: self._round(commit, files))
            self._store.complete(commit)
            log.info("Fetched %s at %s, %s", self._hub.repo, commit, size(sum(file.size for file in files)))
        self._store.remember(self._hub.revision, commit)
        return self._store.snapshot(commit)

    def _begin(self, commit: str, files: Sequence[RemoteFile]) -> None:
        """Count what is here already. Raises DiskFull before the first byte when the rest has no room."""
        total, here = sum(file.size for file in files), sum(self._here(commit, file) for file in files)
        self._store.partial(commit).mkdir(exist_ok=True)
        free = shutil.disk_usage(self._store.folder).free
        if free < total - here:
            raise DiskFull(
                f"Repository {self._hub.repo} needs {size(total - here)} more in {self._root}, "
                f"and {size(free)} are free: use a larger volume."
            )
        self._progress.begin(total, here)

    def _here(self, commit: str, file: RemoteFile) -> int:
        done = bytes_of(self._store.partial(commit) / file.path)
        return (done if done is not None else bytes_of(self._store.parts(commit) / file.path)) or 0

    def _round(self, commit: str, files: Sequence[RemoteFile]) -> None:
        """One try for every file that is missing; the first failure ends those of the others."""
        self._begin(commit, files)
        self._failed.clear()
        with ThreadPoolExecutor(STREAMS, "fetch") as pool:
            work = [pool.submit(self._download, commit, file) for file in files]
            try:
                for each in as_completed(work):
                    each.result()
            except BaseException:
                self._failed.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _download(self, commit: str, file: RemoteFile) -> None:
        part, target = self._store.parts(commit) / file.path, self._store.partial(commit) / file.path
        download(self._hub, commit, file, part, target, self._progress)

    def _persistently(self, ask: Callable[[], Answer]) -> Answer:
        """Ask again while the hub is away; the pauses begin anew whenever bytes came."""
        tries, before = 0, self._progress.done
        while True:
            try:
                return ask()
            except HubUnreachable as error:
                tries, before = (0, self._progress.done) if self._progress.done > before else (tries, before)
                if tries == len(self._pauses):
                    raise
                self._warn(f"{error} Trying again in {self._pauses[tries]:.0f} s.")
            self._stop.wait(self._pauses[tries])
            raise_if_stopped(self._stop)
            tries += 1

    def _wait_for_other(self) -> None:
        self._progress.others(self._store.bytes_here())

    def _alive(self) -> None:
        raise_if_stopped(self._stop)
        if self._failed.is_set():
            raise Stopped
        self._touch()
