"""The checkpoint as a step of start-up: fetch it unless it is mounted, and check it before an engine loads it.

Pods that share a folder fetch a repository only once (docs/how-to/model-sources.md).
"""

import logging
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from gaudi_runtime.artifacts.lock import LOOK_SECONDS
from gaudi_runtime.artifacts.sources.download import FULL, DownloadSource, Progress, download
from gaudi_runtime.artifacts.sources.listing import ListedFile, Listing, is_pinned_listing, select_listed_files
from gaudi_runtime.artifacts.sources.snapshots import SnapshotStore, snapshot_bytes_below, snapshot_file_bytes
from gaudi_runtime.artifacts.sources.weights import check_weights
from gaudi_runtime.artifacts.transfer import transfer_concurrently, transfer_with_retries
from gaudi_runtime.contract.config import EngineName, HubRepositoryConfig, QuantizationConfig, RuntimeConfig
from gaudi_runtime.contract.report import FetchProgressReport, Phase
from gaudi_runtime.errors import ConfigError, DiskFull, HubUnreachable, RuntimeStartError
from gaudi_runtime.process.signals import Stopped, raise_if_stopped
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.units import format_bytes

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that are reached without a network."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * 9)
"""Seconds between attempts that bring no bytes, about ten minutes in all."""


def fetch_model(config: RuntimeConfig, board: ReportBoard, stop: threading.Event) -> RuntimeConfig:
    """Return the configuration with the paths of the fetched and checked model and adapters.

    A simulated engine reads and fetches no model. Raises Stopped, or a RuntimeStartError with the reason.
    """
    if config.engine.name is EngineName.SIM:
        return config

    def touch_unless_stopped() -> None:
        raise_if_stopped(stop)
        board.restart_stall_clock()

    def fetch_and_check(hub: HubRepositoryConfig | None, path: str) -> str:
        folder = fetch_repository(hub, Path(path), config.model.fetch_limit_bytes, board, stop) if hub else Path(path)
        check_weights(folder, touch_unless_stopped)
        return str(folder)

    model = config.model
    path = fetch_and_check(model.hub, model.path)
    adapters = tuple(
        adapter.model_copy(update={"path": fetch_and_check(adapter.hub, adapter.path)}) for adapter in model.adapters
    )
    updates = {
        "path": path,
        "adapters": adapters,
        "quantization": _move_config_file(model.quantization, model.path, path),
    }
    return config.model_copy(update={"model": model.model_copy(update=updates)})


def _move_config_file(desired: QuantizationConfig | None, old: str, new: str) -> QuantizationConfig | None:
    """Return the quantization with its file moved to the folder `new` if the file was in the folder `old`."""
    if desired is None or desired.config_file is None or not Path(desired.config_file).is_relative_to(old):
        return desired
    file = Path(new) / Path(desired.config_file).relative_to(old)
    return desired.model_copy(update={"config_file": str(file)})


def fetch_repository(
    repository: HubRepositoryConfig, root: Path, limit: int | None, board: ReportBoard, stop: threading.Event
) -> Path:
    """Fetch the missing files of a repository below `root`, and return their folder.

    Figures and warnings are published on the board. All files below `root` together may have `limit` bytes. Raises
    Stopped, or a RuntimeStartError with the reason.
    """
    try:
        from gaudi_runtime.artifacts.sources.hub import Hub
    except ImportError as error:
        raise ConfigError(
            f"This image cannot fetch models from a hub: {error}. Install huggingface_hub in the image, or mount the "
            "checkpoint."
        ) from error

    def publish(progress: FetchProgressReport) -> None:
        board.update(fetch=progress, warnings=())

    def warn(sentence: str) -> None:
        log.warning("%s", sentence)
        board.update(warnings=(sentence,))

    board.update(phase=Phase.FETCHING)
    hub = Hub(repository.repo, repository.revision, *read_hub_access_for_fetch(os.environ))
    return RepositoryFetch(hub, root, stop, publish, warn, board.restart_stall_clock, limit=limit).run()


def read_hub_access_for_fetch(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the token and the address of the hub. Raises ConfigError for a token without TLS."""
    token, endpoint = _read_token(environment), environment.get("HF_ENDPOINT")
    address = urlsplit(endpoint or "")
    if token and address.scheme.lower() == "http" and address.hostname not in LOOPBACK:
        raise ConfigError(
            "HF_ENDPOINT begins with http://, so the access token would be sent unencrypted. Use an address with "
            "https://, or remove tokenSecretRef."
        )
    return token, endpoint


def _read_token(environment: Mapping[str, str]) -> str | None:
    """Return the token without the line break at its end, which is common in Secrets made from files."""
    token = environment.get("HF_TOKEN", "").strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(
            "The access token in HF_TOKEN contains characters other than printable ASCII. Correct the Secret of the "
            "token."
        )
    return token or None


def free_bytes_for_fetch(folder: Path) -> int:
    """Return the free bytes on the disk of `folder`, into which a checkpoint is fetched."""
    return shutil.disk_usage(folder).free


class RepositoryFetch:
    """A fetch of one repository into a folder below `root`. All repositories there may have `limit` bytes together.

    `warn` receives warnings for the report, and `touch` is called for every piece. While another process fetches the
    same repository, this process polls every `look_seconds`. `free` returns the free bytes on the disk of a folder.
    """

    def __init__(
        self,
        source: DownloadSource,
        root: Path,
        stop: threading.Event,
        publish: Callable[[FetchProgressReport], None],
        warn: Callable[[str], None],
        touch: Callable[[], None] = lambda: None,
        pauses: Sequence[float] = PAUSES,
        limit: int | None = None,
        look_seconds: float = LOOK_SECONDS,
        free: Callable[[Path], int] = free_bytes_for_fetch,
    ) -> None:
        self._source, self._root, self._stop, self._warn = source, root, stop, warn
        self._store, self._limit_bytes = SnapshotStore(root, source.repo, look_seconds), limit
        self._touch, self._pauses, self._disk_free = touch, pauses, free
        self._failed = threading.Event()
        self._progress = Progress(publish, self._touch_unless_stopped)

    def run(self) -> Path:
        """Fetch the snapshot and return its folder. A commit that is already complete needs no request.

        If the disk is full, return the last snapshot of the branch or tag. Raises Stopped after `stop` is set, or a
        RuntimeStartError with the reason.
        """
        try:
            return self._fetch_on_any_disk()
        except DiskFull as error:
            last_snapshot = self._store.last_snapshot(self._source.revision)
            folder = self._use_if_complete(last_snapshot.name) if last_snapshot else None
            if folder is None:
                raise
            self._warn_about_last_snapshot(error, folder)
            return folder

    def _fetch_on_any_disk(self) -> Path:
        try:
            return self._use_pinned_snapshot() or self._fetch_with_lock()
        except OSError as error:
            if error.errno in FULL:
                raise DiskFull(f"The disk of {self._root} is full. Free space, or use a larger volume.") from error
            raise ConfigError(f"The model cannot be fetched into {self._root}: {error}. Check the volume.") from error

    def _use_pinned_snapshot(self) -> Path | None:
        commit = self._source.revision
        folder = self._use_if_complete(commit) if is_pinned_listing(commit) else None
        if folder:
            size = snapshot_bytes_below(folder)
            self._progress.begin(size, size)
        return folder

    def _use_if_complete(self, commit: str) -> Path | None:
        if not self._store.is_complete(commit):
            return None
        folder = self._store.use_snapshot(commit)
        # Another process may have removed the snapshot before it was marked as in use.
        return folder if self._store.is_complete(commit) else None

    def _fetch_with_lock(self) -> Path:
        with self._store.write_lock.acquire(
            lambda: self._progress.report_waiting(self._store.unfinished_bytes()), self._stop
        ):
            if snapshot := self._use_pinned_snapshot():
                return snapshot
            listing = self._get_listing_or_snapshot()
            commit = listing.name if isinstance(listing, Path) else self._fetch_snapshot(listing)
            return self._store.use_snapshot(commit)

    def _get_listing_or_snapshot(self) -> Listing | Path:
        """Return the listing, or the last snapshot of the branch or tag if the hub is not reachable."""
        snapshot = self._store.last_snapshot(self._source.revision)
        if snapshot is None:
            return self._call_with_retries(self._source.list_files)
        try:
            return self._source.list_files()
        except (HubUnreachable, ConfigError) as error:
            self._warn_about_last_snapshot(error, snapshot)
            return snapshot

    def _warn_about_last_snapshot(self, error: RuntimeStartError, snapshot: Path) -> None:
        revision = self._source.revision
        self._warn(f"{error} Commit {snapshot.name}, which was fetched earlier, is used for revision {revision}.")

    def _fetch_snapshot(self, listing: Listing) -> str:
        """Fetch the files of the listing and return their commit."""
        commit, repo = listing.commit, self._source.repo
        if not self._store.is_complete(commit):
            files = select_listed_files(repo, listing)
            self._store.drop_unfinished(keep=commit)
            self._store.prepare_folders(commit)
            self._store.link_known_files(commit, files)
            self._call_with_retries(lambda: self._fetch_missing(commit, files))
            self._store.write_lock.check_exclusive()
            self._store.publish_snapshot(commit, files)
            log.info(
                "Fetched repository %s at commit %s, %s", repo, commit, format_bytes(sum(file.size for file in files))
            )
        self._store.record_commit(self._source.revision, commit)
        return commit

    def _ensure_space(self, commit: str, needed_bytes: int) -> None:
        """Remove older commits of this repository that no process reads. Other repositories are not changed."""
        # If even the removal of all commits would not suffice, keep them, because the last one can still serve.
        if self._free_bytes() + snapshot_bytes_below(self._store.folder) >= needed_bytes:
            for old_commit in self._store.drop_unused(commit, lambda: self._free_bytes() >= needed_bytes):
                log.info("Repository %s: removed commit %s, which no process uses", self._source.repo, old_commit)
        if (available_bytes := self._free_bytes()) < needed_bytes:
            advice = "Use a larger volume" if self._limit_bytes is None else "Raise spec.model.cache.sizeLimit"
            raise DiskFull(
                f"Repository {self._source.repo} needs {format_bytes(needed_bytes)} more in {self._root}, but only "
                f"{format_bytes(available_bytes)} are free. {advice}."
            )

    def _free_bytes(self) -> int:
        free = self._disk_free(self._store.folder)
        return (
            free
            if self._limit_bytes is None
            else max(0, min(free, self._limit_bytes - snapshot_bytes_below(self._root)))
        )

    def _received_bytes(self, commit: str, file: ListedFile) -> int:
        size = snapshot_file_bytes(self._store.partial_folder(commit) / file.path)
        return (size if size is not None else snapshot_file_bytes(self._store.parts_folder(commit) / file.path)) or 0

    def _fetch_missing(self, commit: str, files: Sequence[ListedFile]) -> None:
        """Try once to fetch every missing file. The first failure cancels the other downloads."""
        total_bytes = sum(file.size for file in files)
        received_bytes = sum(self._received_bytes(commit, file) for file in files)
        self._ensure_space(commit, total_bytes - received_bytes)  # so that DiskFull is raised before the first byte
        self._progress.begin(total_bytes, received_bytes)
        transfer_concurrently([partial(self._download, commit, file) for file in files], self._failed, "fetch")

    def _download(self, commit: str, file: ListedFile) -> None:
        part_file, target = self._store.parts_folder(commit) / file.path, self._store.partial_folder(commit) / file.path
        download(self._source, commit, file, part_file, target, self._progress)
        self._store.write_lock.check_exclusive()

    def _call_with_retries(self, run: Callable[[], Answer]) -> Answer:
        """Retry `run` while the hub is not reachable. The pauses start from the first one after bytes were received."""
        return transfer_with_retries(
            run, HubUnreachable, self._pauses, self._warn_and_wait, lambda: self._progress.done_bytes
        )

    def _warn_and_wait(self, seconds: float, error: HubUnreachable) -> None:
        self._warn(f"{error} The next attempt is in {seconds:.0f} s.")
        self._stop.wait(seconds)
        raise_if_stopped(self._stop)

    def _touch_unless_stopped(self) -> None:
        raise_if_stopped(self._stop)
        if self._failed.is_set():
            raise Stopped
        self._touch()
