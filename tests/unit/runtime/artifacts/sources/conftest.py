"""A hub with a small repository, and downloads into a folder of the test."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from huggingface_hub import close_session

from gaudi_runtime.artifacts.sources.fetch import RepositoryFetch, free_bytes_for_fetch
from gaudi_runtime.artifacts.sources.hub import Hub
from gaudi_runtime.contract.report import FetchProgressReport
from tests.support.hub_server import COMMIT, REPO, HubState, running
from tests.unit.runtime.artifacts.sources.safetensors_file import safetensors

WEIGHTS = safetensors({"weight": bytes(range(256)) * 4096})
HALF = len(WEIGHTS) // 2
FILES = {
    "config.json": b'{"model_type": "llama"}\n',
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "notes/read me.md": b"hello",
}


@dataclass
class Site:
    """A hub, a folder, and the progress reports of a fetch."""

    hub: HubState
    endpoint: str
    root: Path
    free: Callable[[Path], int] = free_bytes_for_fetch
    stop: threading.Event = field(default_factory=threading.Event)
    listen: Callable[[FetchProgressReport], None] = lambda _: None
    progress: list[FetchProgressReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def record(self, progress: FetchProgressReport) -> None:
        """Record the progress, and pass the progress to `listen`."""
        self.progress.append(progress)
        self.listen(progress)

    def fetch(self, revision: str = COMMIT, token: str | None = None, tries: int = 3, repo: str = REPO) -> Path:
        """Fetch with very short pauses between attempts."""
        hub = Hub(repo, revision, token, self.endpoint)
        pauses = [0.001] * tries
        callbacks = self.record, self.warnings.append
        return RepositoryFetch(
            hub, self.root, self.stop, *callbacks, pauses=pauses, look_seconds=0.005, free=self.free
        ).run()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A running hub and an empty folder."""
    monkeypatch.setenv("NO_PROXY", "*")
    close_session()
    state = HubState(dict(FILES))
    with running(state) as endpoint:
        yield Site(state, endpoint, tmp_path)
        close_session()
