"""A process that fetches a model (python -m tests.unit.runtime.artifacts.sources.fetching ENDPOINT ROOT)."""

import sys
import threading
from pathlib import Path

from gaudi_runtime.artifacts.sources.fetch import RepositoryFetch
from gaudi_runtime.artifacts.sources.hub import Hub
from tests.support.hub_server import COMMIT, REPO

if __name__ == "__main__":
    hub = Hub(REPO, COMMIT, endpoint=sys.argv[1])
    RepositoryFetch(hub, Path(sys.argv[2]), threading.Event(), lambda _: None, lambda _: None).run()
